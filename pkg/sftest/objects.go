package sftest

import (
	"time"

	"sf2loki/pkg/sftest/soql"
)

// DefineObjects adds the objects that orgs have beside event log files: login
// history, the audit trail, event log objects, users, debug logs and their
// trace flags.
func (o *Org) DefineObjects() {
	text := func(names ...string) []soql.Field {
		var fields []soql.Field
		for _, n := range names {
			fields = append(fields, soql.Field{Name: n})
		}
		return fields
	}
	at := func(name string) []soql.Field { return []soql.Field{{Name: name, Type: soql.Time}} }
	number := func(name string) []soql.Field { return []soql.Field{{Name: name, Type: soql.Num}} }
	table := func(name, prefix string, parts ...[]soql.Field) {
		fields := []soql.Field{{Name: "Id", Type: soql.ID}}
		for _, p := range parts {
			fields = append(fields, p...)
		}
		o.Define(Table{Object: soql.Object{Name: name, Fields: fields}, KeyPrefix: prefix})
	}
	table("LoginHistory", "0Ya", text("UserId"), at("LoginTime"), text("LoginType", "SourceIp", "Status", "Platform", "Browser", "LoginUrl", "CountryIso"))
	table("SetupAuditTrail", "0Ym", text("Action", "Section"), at("CreatedDate"), text("CreatedById", "Display"))
	table("RestApiEventLog", "0eL", at("Timestamp"), text("RequestIdentifier", "Uri", "Method"), number("StatusCode"))
	table("User", "005", text("Username", "Name"))
	table("ApexLog", "07L", at("StartTime"), text("LogUserId", "Operation", "Request", "Application", "Status"), number("DurationMilliseconds"),
		number("LogLength"), text("Location", "RequestIdentifier"), []soql.Field{{Name: "Body", Type: soql.Base64}})
	table("TraceFlag", "7tf", text("TracedEntityId", "LogType"), at("StartDate"), at("ExpirationDate"))
	o.Insert("User", Row{"Id": o.UserID, "Username": o.Username, "Name": "Integration User"})
}

// ApexLog is a debug log.
type ApexLog struct {
	Start   time.Time
	Visible time.Time // when the transaction ends and the log can be seen; zero: at Start
	User    string    // id; empty: the user that logs in
	Status  string    // empty: Success
	Body    string
	Length  int  // as it is listed; 0: that of Body
	Gone    bool // listed, but 404
}

// AddApexLog adds a debug log and returns its id. DefineObjects comes first.
func (o *Org) AddApexLog(l ApexLog) string {
	if l.Length == 0 {
		l.Length = len(l.Body)
	}
	row := Row{
		"StartTime": l.Start, "LogUserId": or(l.User, o.UserID), "Operation": "/apex/AcmePage", "Request": "Api", "Application": "Unknown",
		"Status": or(l.Status, "Success"), "DurationMilliseconds": 231, "LogLength": l.Length, "Location": "SystemLog",
		"Body": Blob{Bytes: []byte(l.Body), Gone: l.Gone},
	}
	if !l.Visible.IsZero() {
		row[VisibleAt] = l.Visible
	}
	return o.Insert("ApexLog", row)[0]
}

// AddTraceFlag has the debug logs of a user written until a time.
func (o *Org) AddTraceFlag(user string, until time.Time) string {
	return o.Insert("TraceFlag", Row{"TracedEntityId": or(user, o.UserID), "LogType": "USER_DEBUG", "StartDate": until.Add(-24 * time.Hour), "ExpirationDate": until})[0]
}
