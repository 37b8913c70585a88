package sftest

import (
	"fmt"
	"strings"
	"time"

	"sf2loki/pkg/sftest/soql"
)

// Table is an object of the org.
type Table struct {
	soql.Object
	KeyPrefix string // of its ids
	BigObject bool   // stored events: no ascending order, no aggregates, every Id the same
	Hidden    bool   // INVALID_TYPE, as without a licence or a right
	Tooling   bool   // known to the Tooling API only

	rows []soql.Row
}

// nullID is what every row of a Big Object has for its Id.
const nullID = "000000000000000AAA"

// Define adds an object, or replaces its definition and keeps its rows.
func (o *Org) Define(t Table) {
	o.locked(func() { o.define(t) })
}

func (o *Org) define(t Table) {
	key := strings.ToLower(t.Name)
	if old := o.tables[key]; old != nil {
		t.rows = old.rows
	}
	o.tables[key] = &t
}

// Insert adds rows to an object, which is made up when nobody has defined it:
// its fields are then those of the rows. Rows without an Id get one. It
// returns the ids.
func (o *Org) Insert(object string, rows ...Row) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.insert(object, rows...)
}

func (o *Org) insert(object string, rows ...Row) []string {
	t := o.tables[strings.ToLower(object)]
	if t == nil {
		o.define(Table{Object: soql.Object{Name: object}, KeyPrefix: fmt.Sprintf("a%02d", len(o.tables))})
		t = o.tables[strings.ToLower(object)]
	}
	var ids []string
	for _, r := range rows {
		row := soql.Row{}
		for k, v := range r {
			if at, ok := v.(time.Time); ok {
				v = at.UTC()
			}
			row[k] = v
		}
		if t.BigObject {
			row["Id"] = nullID
		} else if row["Id"] == nil {
			row["Id"] = o.newID(t.KeyPrefix)
		}
		t.learn(row)
		t.rows = append(t.rows, row)
		ids = append(ids, row["Id"].(string))
	}
	return ids
}

// learn adds fields that a row brings and the object does not have.
func (t *Table) learn(row soql.Row) {
	if _, err := t.Find("Id"); err != nil {
		t.Fields = append(t.Fields, soql.Field{Name: "Id", Type: soql.ID})
	}
	for name, v := range row {
		if strings.HasPrefix(name, "@") {
			continue
		}
		if _, err := t.Find(name); err == nil {
			continue
		}
		kind := soql.Text
		switch v.(type) {
		case time.Time:
			kind = soql.Time
		case int, int64, float64:
			kind = soql.Num
		case bool:
			kind = soql.Bool
		case Blob:
			kind = soql.Base64
		}
		t.Fields = append(t.Fields, soql.Field{Name: name, Type: kind})
	}
}

// Update sets fields of a row, and tells whether there is one of that id.
func (o *Org) Update(object, id string, set Row) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	row := o.find(object, id)
	for k, v := range set {
		if row != nil {
			row[k] = v
		}
	}
	return row != nil
}

// Delete removes a row, and tells whether there was one of that id.
func (o *Org) Delete(object, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.tables[strings.ToLower(object)]
	if t == nil {
		return false
	}
	for i, row := range t.rows {
		if sameID(row["Id"], id) {
			t.rows = append(t.rows[:i:i], t.rows[i+1:]...)
			return true
		}
	}
	return false
}

func (o *Org) find(object, id string) soql.Row {
	t := o.tables[strings.ToLower(object)]
	if t == nil {
		return nil
	}
	for _, row := range t.rows {
		if sameID(row["Id"], id) {
			return row
		}
	}
	return nil
}

func sameID(have any, id string) bool {
	s, _ := have.(string)
	return len(s) >= 15 && len(id) >= 15 && s[:15] == id[:15]
}

// newID gives ids that rise, as those of one object do.
func (o *Org) newID(prefix string) string {
	o.nextID++
	return ID18(fmt.Sprintf("%.3sxx%010d", prefix+"000", o.nextID))
}

// ID18 gives the 18-character form of a 15-character id.
func ID18(id string) string {
	const suffix = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
	long := id[:15]
	for block := 0; block < 15; block += 5 {
		bits := 0
		for i := range 5 {
			if c := id[block+i]; c >= 'A' && c <= 'Z' {
				bits |= 1 << i
			}
		}
		long += suffix[bits : bits+1]
	}
	return long
}

// visible gives the rows that have been committed by now.
func (t *Table) visible(now time.Time) []soql.Row {
	out := make([]soql.Row, 0, len(t.rows))
	for _, row := range t.rows {
		if at, ok := row[VisibleAt].(time.Time); ok && at.After(now) {
			continue
		}
		out = append(out, row)
	}
	return out
}

// eventLogFileFields are the object's fields as the reference lists them.
var eventLogFileFields = []soql.Field{
	{Name: "Id", Type: soql.ID}, {Name: "IsDeleted", Type: soql.Bool}, {Name: "CreatedDate", Type: soql.Time},
	{Name: "CreatedById", Type: soql.ID}, {Name: "LastModifiedDate", Type: soql.Time}, {Name: "SystemModstamp", Type: soql.Time},
	{Name: "EventType"}, {Name: "LogDate", Type: soql.Time}, {Name: "LogFileLength", Type: soql.Num}, {Name: "LogFileContentType"},
	{Name: "ApiVersion", Type: soql.Num}, {Name: "Sequence", Type: soql.Num}, {Name: "Interval"},
	{Name: "LogFileFieldNames"}, {Name: "LogFileFieldTypes"}, {Name: "LogFile", Type: soql.Base64},
}

func (o *Org) defineStandard() {
	var fields []soql.Field
	for _, f := range eventLogFileFields {
		if o.cfg.NoHourly && (f.Name == "Interval" || f.Name == "Sequence") {
			continue
		}
		fields = append(fields, f)
	}
	o.define(Table{Object: soql.Object{Name: "EventLogFile", Fields: fields}, KeyPrefix: "0AT"})
	o.define(Table{Object: soql.Object{Name: "PlatformEventChannel", Fields: []soql.Field{{Name: "Id", Type: soql.ID}, {Name: "DeveloperName"},
		{Name: "MasterLabel"}, {Name: "NamespacePrefix"}, {Name: "ChannelType"}}}, KeyPrefix: "0YL", Tooling: true})
	o.define(Table{Object: soql.Object{Name: "LoginEvent", Fields: []soql.Field{{Name: "Id", Type: soql.ID},
		{Name: "EventDate", Type: soql.Time}, {Name: "EventIdentifier"}, {Name: "CreatedDate", Type: soql.Time},
		{Name: "UserId", Type: soql.ID}, {Name: "Username"}, {Name: "SourceIp"}, {Name: "Status"}, {Name: "LoginType"}}}, BigObject: true})
}
