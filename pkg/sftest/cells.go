package sftest

import (
	"fmt"
	"strconv"
	"strings"
)

// fixed and among make cells that need nothing of their row.
func fixed(s string) func(*gen) string { return func(*gen) string { return s } }

func among(list string) func(*gen) string {
	choices := strings.Split(list, "|")
	return func(g *gen) string { return pick(g, choices) }
}

func number(from, to int) func(*gen) string {
	return func(g *gen) string { return g.between(from, to) }
}

func someID(prefix string) func(*gen) string { return func(g *gen) string { return g.id(prefix) } }

func someID18(prefix string) func(*gen) string { return func(g *gen) string { return g.id18(prefix) } }

// either chooses by whether the row tells of a success.
func either(good, bad func(*gen) string) func(*gen) string {
	return func(g *gen) string {
		if g.ok {
			return good(g)
		}
		return bad(g)
	}
}

func millis(ahead int64) func(*gen) string {
	return func(g *gen) string { return strconv.FormatInt(g.when.UnixMilli()+ahead, 10) }
}

func fromList(list []string) func(*gen) string {
	return func(g *gen) string { return pick(g, list) }
}

func entity(g *gen) string { return g.entity }

// cellMakers gives each column believable values; columns without one stay empty.
var cellMakers = map[string]func(*gen) string{
	"EVENT_TYPE":        func(g *gen) string { return g.hour.Type },
	"TIMESTAMP":         func(g *gen) string { return g.when.Format("20060102150405.000") },
	"TIMESTAMP_DERIVED": func(g *gen) string { return g.when.Format("2006-01-02T15:04:05.000Z") },
	"REQUEST_ID":        func(g *gen) string { return g.requestID() },
	"ORGANIZATION_ID":   fixed(orgID15),
	"USER_ID":           func(g *gen) string { return userID(g.user) },
	"USER_ID_DERIVED":   func(g *gen) string { return ID18(userID(g.user)) },
	"USER_NAME":         func(g *gen) string { return g.userName(g.user) },
	"SESSION_KEY":       func(g *gen) string { return g.key(16) },
	"LOGIN_KEY":         func(g *gen) string { return g.key(16) },
	"QUERY_ID":          func(g *gen) string { return g.key(16) },

	"DELEGATED_USER_NAME":       func(g *gen) string { return g.userName(g.user + 1) },
	"DELEGATED_USER_ID":         func(g *gen) string { return userID(g.user + 1) },
	"DELEGATED_USER_ID_DERIVED": func(g *gen) string { return ID18(userID(g.user + 1)) },
	"ACTUAL_LOGGED_IN_USER_ID":  func(g *gen) string { return userID(g.user) },

	"RUN_TIME":            number(1, 4000),
	"CPU_TIME":            number(0, 900),
	"DB_TOTAL_TIME":       number(1_000_000, 1_000_000_000),
	"EXEC_TIME":           number(1, 3000),
	"CALLOUT_TIME":        among("0|0|0|417"),
	"NUMBER_SOQL_QUERIES": number(0, 40),
	"DB_BLOCKS":           number(0, 9000),
	"DB_CPU_TIME":         number(0, 300),

	"URI":            among("/services/data/v62.0/query|/aura|/home/home.jsp|/001xx000003DGb2|/services/oauth2/token"),
	"USER_TYPE":      among("Standard|Standard|Guest|PowerCustomerSuccess"),
	"REQUEST_STATUS": among("S|S|S|F|U|"),
	"CLIENT_IP":      fromList(addresses),
	"SOURCE_IP":      fromList(addresses[:4]),
	"URI_ID_DERIVED": func(g *gen) string {
		if g.IntN(2) == 0 {
			return ""
		}
		return g.id18("001xx")
	},

	"LOGIN_TYPE":     among("i|A|3|4|O"),
	"BROWSER_TYPE":   fromList(agents),
	"USER_AGENT":     fromList(agents),
	"CLIENT_INFO":    fromList(agents),
	"API_TYPE":       among("E|P|f|T|"),
	"API_VERSION":    among("62.0|58.0|9998.0"),
	"TLS_PROTOCOL":   fixed("TLSv1.3"),
	"CIPHER_SUITE":   fixed("TLS_AES_256_GCM_SHA384"),
	"LOGIN_STATUS":   either(fixed("LOGIN_NO_ERROR"), among("LOGIN_ERROR_INVALID_PASSWORD|LOGIN_ERROR_SESSION_TIMEOUT")),
	"LOGIN_SUB_TYPE": among("|uiup|oauthclientcredential"),

	"CLIENT_NAME":       among("Data Loader Bulk/62.0|acme-sync|"),
	"METHOD_NAME":       among("query|create|update"),
	"METHOD":            among("GET|POST|PATCH"),
	"HTTP_METHOD":       among("GET|POST"),
	"REQUEST_METHOD":    among("GET|POST"),
	"ENTITY_NAME":       entity,
	"ENTITY_TYPE":       entity,
	"ROWS_PROCESSED":    number(0, 2000),
	"REQUEST_SIZE":      number(0, 5000),
	"RESPONSE_SIZE":     number(0, 900_000),
	"STATUS_CODE":       either(fixed("200"), among("400|401|404|500")),
	"EXCEPTION_MESSAGE": either(fixed(""), func(g *gen) string { return "INVALID_FIELD: No such column 'Foo__c' on entity '" + g.entity + "'" }),
	"QUERY": func(g *gen) string {
		return "SELECT Id, Name, CreatedDate FROM " + g.entity + " WHERE Name LIKE 'A%' AND CreatedDate = LAST_N_DAYS:7"
	},
	"MEDIA_TYPE":    fixed("application/json"),
	"NUMBER_FIELDS": number(1, 60),
	"API_FAMILY":    among("REST|SOAP|BULK"),
	"API_RESOURCE": func(g *gen) string {
		return pick(g, []string{"/v62.0/query", "/v62.0/sobjects/" + g.entity, "/v62.0/limits"})
	},
	"COUNTS_AGAINST_API_LIMIT": among("0|1|1"),
	"CONNECTED_APP_ID":         someID("0H4xx"),
	"CONNECTED_APP_NAME":       fixed("Acme Sync"),
	"API_CLIENT_CATEGORY":      fixed("Customer"),

	"ENTRY_POINT":             among("AcmeController.save|AccountTrigger on Account trigger event AfterUpdate|Batch: NightlyJob"),
	"QUIDDITY":                among("R|S|BA|F|QTXF"),
	"IS_LONG_RUNNING_REQUEST": among("0|0|0|1"),
	"TYPE":                    among("REST|SOAP|OData"),
	"SUCCESS":                 either(fixed("1"), fixed("0")),
	"TIME":                    number(5, 9000),
	"URL":                     func(g *gen) string { return fmt.Sprintf(`"https://api.example.com/v1/x?id=%d"`, g.n) },
	"TRIGGER_ID":              someID("01qxx"),
	"TRIGGER_NAME":            func(g *gen) string { return g.entity + "Trigger" },
	"TRIGGER_TYPE":            among("BeforeInsert|AfterUpdate"),
	"APEX_ENTITY_NAME":        fixed("AcmeService"),
	"EXCEPTION_TYPE":          fixed("System.NullPointerException"),
	"EXCEPTION_CATEGORY":      fixed("APEX_CLASS"),
	"STACK_TRACE":             func(g *gen) string { return "Class.AcmeService.run: line " + g.between(1, 400) + ", column 1" },

	"REFERRER_URI":             among("|https://acme.my.salesforce.com/home/home.jsp"),
	"DISPLAY_TYPE":             among("D|S|H"),
	"RENDERING_TYPE":           among("W|E|P"),
	"REPORT_ID":                someID("00Oxx"),
	"REPORT_ID_DERIVED":        someID18("00Oxx"),
	"ROW_COUNT":                number(0, 50_000),
	"NUMBER_EXCEPTION_FILTERS": number(0, 5),
	"NUMBER_COLUMNS":           number(1, 30),
	"UI_NUMBER_COLUMNS":        number(1, 30),
	"AVERAGE_ROW_SIZE":         number(10, 400),
	"SORT":                     fixed("CREATED_DATE|Asc"),
	"NUMBER_BUCKETS":           fixed("0"),
	"ORIGIN":                   among("ReportRunFromLightning|ReportRunUsingSynchronousApi"),
	"REPORT_DESCRIPTION":       fixed("Pipeline, by owner"),
	"ACTION_MESSAGE":           func(g *gen) string { return "1$aura://RecordUiController/ACTION$getRecord=" + g.between(1, 90) },
	"ACTION_MESSAGE_LENGTH":    number(100, 99_999),

	"SESSION_TYPE":          among("C|UI|A"),
	"SESSION_LEVEL":         among("1|2"),
	"PLATFORM_TYPE":         fixed("1015"),
	"RESOLUTION_TYPE":       fixed("9999"),
	"APP_TYPE":              fixed("1000"),
	"CLIENT_VERSION":        fixed("9998"),
	"USER_INITIATED_LOGOUT": among("0|1"),

	"APP_NAME":                      fixed("one:one"),
	"DEVICE_PLATFORM":               fixed("SFX:BROWSER:DESKTOP"),
	"SDK_APP_VERSION":               fixed("252.1"),
	"OS_NAME":                       among("WINDOWS|OSX"),
	"OS_VERSION":                    fixed("10"),
	"BROWSER_NAME":                  fixed("CHROME"),
	"BROWSER_VERSION":               fixed("126"),
	"CLIENT_GEO":                    fixed("United Kingdom/London"),
	"CONNECTION_TYPE":               fixed("4g"),
	"UI_EVENT_ID":                   fixed("ltng:pageView"),
	"UI_EVENT_TYPE":                 fixed("click"),
	"UI_EVENT_SOURCE":               fixed("native-page-view"),
	"UI_EVENT_TIMESTAMP":            millis(0),
	"PAGE_START_TIME":               millis(-1200),
	"DURATION":                      func(g *gen) string { return g.float(50, 9000, 1) },
	"EFFECTIVE_PAGE_TIME":           func(g *gen) string { return g.float(200, 8000, 1) },
	"EFFECTIVE_PAGE_TIME_DEVIATION": among("false|false|true"),
	"DEVICE_SESSION_ID":             func(g *gen) string { return strings.NewReplacer("+", "a", "/", "b").Replace(g.key(32)) },
	"UI_EVENT_SEQUENCE_NUM":         func(g *gen) string { return strconv.Itoa(g.n) },
	"PAGE_ENTITY_ID":                someID18("001xx"),
	"PAGE_ENTITY_TYPE":              entity,
	"PAGE_CONTEXT":                  fixed("one:recordHomeFlexipage2Wrapper"),
	"PAGE_URL":                      func(g *gen) string { return fmt.Sprintf(`/lightning/r/%s/view?q=café&x="y"`, g.entity) },
	"PAGE_APP_NAME":                 fixed("LightningSales"),
	"COMPONENT_NAME":                fixed("c:acmeWidget"),
	"MESSAGE":                       fixed(""),

	"PAGE_NAME":        fixed("AcmePage"),
	"REQUEST_TYPE":     fixed("page"),
	"IS_FIRST_REQUEST": fixed("1"),
	"VIEW_STATE_SIZE":  number(0, 9999),
	"CONTROLLER_TYPE":  fixed("Custom"),
	"IS_AJAX_REQUEST":  fixed("0"),

	"JOB_ID":            someID("750xx"),
	"OPERATION_TYPE":    among("insert|query"),
	"JOB_STATUS":        among("JobComplete|Failed"),
	"RECORDS_PROCESSED": number(0, 1_000_000),
	"RECORDS_FAILED":    number(0, 30),
	"RESULT_SIZE_MB":    func(g *gen) string { return g.float(0, 90, 3) },

	"TRANSACTION_TYPE":     among("VersionDownloadAction|VersionViewAction"),
	"DOCUMENT_ID":          someID("069xx"),
	"VERSION_ID":           someID("068xx"),
	"FILE_TYPE":            among("PDF|PNG"),
	"SIZE_BYTES":           number(1, 100_000_000),
	"DOCUMENT_ID_DERIVED":  someID18("069xx"),
	"VERSION_ID_DERIVED":   someID18("068xx"),
	"PROCESS_TYPE":         among("Flow|AutoLaunchedFlow"),
	"FLOW_VERSION_ID":      someID("301xx"),
	"FLOW_LOAD_TIME":       number(0, 90),
	"TOTAL_EXECUTION_TIME": number(1, 9999),
	"NUMBER_OF_INTERVIEWS": fixed("1"),
	"NUMBER_OF_ERRORS":     either(fixed("0"), fixed("1")),

	"NUM_RESULTS":            number(0, 90),
	"SEARCH_QUERY":           among(`acme|naïve "exact" 搜索`),
	"PREFIXES_SEARCHED":      fixed("001,003,500"),
	"RECORD_ID":              someID("001xx"),
	"ACCESS_ERROR":           fixed("INSUFFICIENT_ACCESS"),
	"REQUESTED_ACCESS_LEVEL": fixed("Edit"),
	"ERROR_TIMESTAMP":        millis(0),
	"ERROR_DESCRIPTION":      fixed("no access"),
}
