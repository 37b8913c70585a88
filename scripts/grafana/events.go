package main

// How far the data itself has come, on each dashboard that shows it.
func until(source, object string) panel {
	return panel{
		title: "Data until", kind: stat, unit: "dateTimeAsIso", width: 6,
		about: "Time of the newest that is behind the position. What is later is not here yet.",
		queries: []query{{
			`1000 * max(sf2loki_watermark_timestamp_seconds{source="` + source + `",object=~"` + object + `",ORG} > 0)`, "until",
		}},
	}
}

func logins() dashboard {
	const failed = `{source="eventlogfile",event_type="Login",ORG} | json LOGIN_STATUS="LOGIN_STATUS", USER_NAME="USER_NAME", SOURCE_IP="SOURCE_IP" | LOGIN_STATUS != "LOGIN_NO_ERROR"`
	const live = `{source="pubsub",event_type="LoginEventStream",ORG}`
	return dashboard{name: "logins", title: "logins", from: "now-24h", about: "Who logs in, from where, and what fails. Event log files are complete and hours late; streamed events are at once and need Event Monitoring.", rows: []row{
		{"Event log files", []panel{
			until("eventlogfile", "(Daily:)?Login"),
			{title: "Logins", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time({source="eventlogfile",event_type="Login",ORG} [$__range]))`, "logins"}}},
			{title: "Failed", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time(` + failed + ` [$__range]))`, "failed"}}},
			{title: "Logouts", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time({source="eventlogfile",event_type="Logout",ORG} [$__range]))`, "logouts"}}},
			{title: "Logins by status", kind: series, unit: "short", queries: []query{
				{`sum by (LOGIN_STATUS) (count_over_time({source="eventlogfile",event_type="Login",ORG} | json LOGIN_STATUS="LOGIN_STATUS" [$__interval]))`, "{{LOGIN_STATUS}}"}}},
			{title: "Logins by interface", kind: series, unit: "short", queries: []query{
				{`sum by (API_TYPE) (count_over_time({source="eventlogfile",event_type="Login",ORG} | json API_TYPE="API_TYPE" [$__interval]))`, "{{API_TYPE}}"}}},
			{title: "Users that fail", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (USER_NAME, LOGIN_STATUS) (count_over_time(` + failed + ` [$__range])))`, ""}}},
			{title: "Addresses that fail", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (SOURCE_IP, LOGIN_STATUS) (count_over_time(` + failed + ` [$__range])))`, ""}}},
			{title: "TLS", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (TLS_PROTOCOL) (count_over_time({source="eventlogfile",event_type="Login",ORG} | json TLS_PROTOCOL="TLS_PROTOCOL" [$__interval]))`, "{{TLS_PROTOCOL}}"}}},
			{title: "Browsers and clients", kind: table, unit: "short", width: 8, queries: []query{
				{`topk(20, sum by (BROWSER_TYPE) (count_over_time({source="eventlogfile",event_type="Login",ORG} | json BROWSER_TYPE="BROWSER_TYPE" [$__range])))`, ""}}},
			{title: "Time of a login, 95 %", kind: series, unit: "ms", width: 8, queries: []query{
				{`quantile_over_time(0.95, {source="eventlogfile",event_type="Login",ORG} | json RUN_TIME="RUN_TIME" | unwrap RUN_TIME | __error__="" [$__interval]) by (source)`, "{{source}}"}}},
		}},
		{"Streamed events", []panel{
			{title: "Logins", kind: series, unit: "short", queries: []query{
				{`sum by (Status) (count_over_time(` + live + ` | json Status="Status" [$__interval]))`, "{{Status}}"}}},
			{title: "Countries", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (Country, City) (count_over_time(` + live + ` | json Country="Country", City="City" [$__range])))`, ""}}},
			{title: "Logouts", kind: series, unit: "short", queries: []query{
				{`sum(count_over_time({source="pubsub",event_type="LogoutEventStream",ORG} [$__interval]))`, "logouts"}}},
			{title: "Users", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (Username, LoginType) (count_over_time(` + live + ` | json Username="Username", LoginType="LoginType" [$__range])))`, ""}}},
		}},
		{"Lines", []panel{
			{title: "Logins that failed", kind: lines, queries: []query{
				{failed + ` | line_format "{{.LOGIN_STATUS}} {{.USER_NAME}} {{.SOURCE_IP}}"`, ""}}},
		}},
	}}
}

func apiUse() dashboard {
	const total = `{source="eventlogfile",event_type="ApiTotalUsage",ORG}`
	return dashboard{name: "api-use", title: "API use", from: "now-24h", about: "Who calls the API of Salesforce, and what is left of the day's calls.", rows: []row{
		{"Calls", []panel{
			until("eventlogfile", "(Daily:)?ApiTotalUsage"),
			{title: "Calls", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time(` + total + ` [$__range]))`, "calls"}}},
			{title: "Count against the limit", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time(` + total + ` | json COUNTS_AGAINST_API_LIMIT="COUNTS_AGAINST_API_LIMIT" | COUNTS_AGAINST_API_LIMIT = "1" [$__range]))`, "calls"}}},
			{title: "Left of the day", kind: stat, unit: "percentunit", width: 6, limits: below(0.1, 0.25), queries: []query{
				{`min by (org) (sf2loki_salesforce_limit_remaining{limit_name="DailyApiRequests",ORG} / sf2loki_salesforce_limit_max{limit_name="DailyApiRequests",ORG})`, "{{org}}"}}},
			{title: "By family", kind: series, unit: "short", queries: []query{
				{`sum by (API_FAMILY) (count_over_time(` + total + ` | json API_FAMILY="API_FAMILY" [$__interval]))`, "{{API_FAMILY}}"}}},
			{title: "By status", kind: series, unit: "short", queries: []query{
				{`sum by (STATUS_CODE) (count_over_time(` + total + ` | json STATUS_CODE="STATUS_CODE" [$__interval]))`, "{{STATUS_CODE}}"}}},
			{title: "Users", kind: table, unit: "short", width: 8, queries: []query{
				{`topk(20, sum by (USER_NAME) (count_over_time(` + total + ` | json USER_NAME="USER_NAME" [$__range])))`, ""}}},
			{title: "Apps", kind: table, unit: "short", width: 8, queries: []query{
				{`topk(20, sum by (CONNECTED_APP_NAME, CLIENT_NAME) (count_over_time(` + total + ` | json CONNECTED_APP_NAME="CONNECTED_APP_NAME", CLIENT_NAME="CLIENT_NAME" [$__range])))`, ""}}},
			{title: "Resources", kind: table, unit: "short", width: 8, queries: []query{
				{`topk(20, sum by (HTTP_METHOD, API_RESOURCE) (count_over_time(` + total + ` | json HTTP_METHOD="HTTP_METHOD", API_RESOURCE="API_RESOURCE" [$__range])))`, ""}}},
			{title: "Old versions", kind: table, unit: "short", about: "Salesforce retires versions of its API; below 31.0 they are gone.", queries: []query{
				{`topk(20, sum by (API_VERSION, CLIENT_NAME) (count_over_time(` + total + ` | json API_VERSION="API_VERSION", CLIENT_NAME="CLIENT_NAME" | API_VERSION < 45 [$__range])))`, ""}}},
			{title: "Addresses", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (CLIENT_IP) (count_over_time(` + total + ` | json CLIENT_IP="CLIENT_IP" [$__range])))`, ""}}},
		}},
		{"REST and Bulk", []panel{
			{title: "REST by status", kind: series, unit: "short", queries: []query{
				{`sum by (STATUS_CODE) (count_over_time({source="eventlogfile",event_type="RestApi",ORG} | json STATUS_CODE="STATUS_CODE" [$__interval]))`, "{{STATUS_CODE}}"}}},
			{title: "Rows read by REST", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (ENTITY_NAME) (sum_over_time({source="eventlogfile",event_type="RestApi",ORG} | json ENTITY_NAME="ENTITY_NAME", ROWS_PROCESSED="ROWS_PROCESSED" | unwrap ROWS_PROCESSED | __error__="" [$__range])))`, ""}}},
			{title: "Time of a call, 95 %", kind: series, unit: "ms", queries: []query{
				{`quantile_over_time(0.95, {source="eventlogfile",event_type=~"RestApi|API",ORG} | json RUN_TIME="RUN_TIME" | unwrap RUN_TIME | __error__="" [$__interval]) by (event_type)`, "{{event_type}}"}}},
			{title: "Bulk jobs", kind: series, unit: "short", queries: []query{
				{`sum by (OPERATION_TYPE) (sum_over_time({source="eventlogfile",event_type="BulkApi2",ORG} | json OPERATION_TYPE="OPERATION_TYPE", RECORDS_PROCESSED="RECORDS_PROCESSED" | unwrap RECORDS_PROCESSED | __error__="" [$__interval]))`, "{{OPERATION_TYPE}}"}}},
		}},
		{"Streamed events", []panel{
			{title: "Queries", kind: series, unit: "short", queries: []query{
				{`sum by (Operation) (count_over_time({source="pubsub",event_type="ApiEventStream",ORG} | json Operation="Operation" [$__interval]))`, "{{Operation}}"}}},
			{title: "Rows read, by user", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (Username, QueriedEntities) (sum_over_time({source="pubsub",event_type="ApiEventStream",ORG} | json Username="Username", QueriedEntities="QueriedEntities", RowsProcessed="RowsProcessed" | unwrap RowsProcessed | __error__="" [$__range])))`, ""}}},
		}},
	}}
}

func reportExports() dashboard {
	const export = `{source="eventlogfile",event_type="ReportExport",ORG}`
	const live = `{source="pubsub",event_type="ReportEventStream",ORG} | json Operation="Operation", Username="Username", Name="Name", RowsProcessed="RowsProcessed", ExportFileFormat="ExportFileFormat" | Operation =~ ".*Export.*"`
	return dashboard{name: "report-exports", title: "report exports", from: "now-7d", about: "Which reports leave the org, and how large they are.", rows: []row{
		{"Event log files", []panel{
			until("eventlogfile", "(Daily:)?ReportExport"),
			{title: "Exports", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time(` + export + ` [$__range]))`, "exports"}}},
			{title: "Reports run", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time({source="eventlogfile",event_type="Report",ORG} [$__range]))`, "runs"}}},
			{title: "Rows of reports", kind: stat, unit: "short", width: 6, queries: []query{
				{`sum(sum_over_time({source="eventlogfile",event_type="Report",ORG} | json ROW_COUNT="ROW_COUNT" | unwrap ROW_COUNT | __error__="" [$__range]))`, "rows"}}},
			{title: "Exports", kind: series, unit: "short", queries: []query{
				{`sum by (org) (count_over_time(` + export + ` [$__interval]))`, "{{org}} exports"}}},
			{title: "Rows of reports, by way of display", kind: series, unit: "short", queries: []query{
				{`sum by (RENDERING_TYPE) (sum_over_time({source="eventlogfile",event_type="Report",ORG} | json RENDERING_TYPE="RENDERING_TYPE", ROW_COUNT="ROW_COUNT" | unwrap ROW_COUNT | __error__="" [$__interval]))`, "{{RENDERING_TYPE}}"}}},
			{title: "Users that export", kind: table, unit: "short", width: 8, queries: []query{
				{`topk(20, sum by (USER_ID_DERIVED) (count_over_time(` + export + ` | json USER_ID_DERIVED="USER_ID_DERIVED" [$__range])))`, ""}}},
			{title: "Reports that are exported", kind: table, unit: "short", width: 8, queries: []query{
				{`topk(20, sum by (REPORT_DESCRIPTION, URI_ID_DERIVED) (count_over_time(` + export + ` | json REPORT_DESCRIPTION="REPORT_DESCRIPTION", URI_ID_DERIVED="URI_ID_DERIVED" [$__range])))`, ""}}},
			{title: "Largest reports", kind: table, unit: "short", width: 8, queries: []query{
				{`topk(20, max by (REPORT_ID_DERIVED) (max_over_time({source="eventlogfile",event_type="Report",ORG} | json REPORT_ID_DERIVED="REPORT_ID_DERIVED", ROW_COUNT="ROW_COUNT" | unwrap ROW_COUNT | __error__="" [$__range])))`, ""}}},
		}},
		{"Streamed events", []panel{
			{title: "Exports", kind: series, unit: "short", queries: []query{
				{`sum by (ExportFileFormat) (count_over_time(` + live + ` [$__interval]))`, "{{ExportFileFormat}}"}}},
			{title: "Rows exported", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (Username, Name) (sum_over_time(` + live + ` | unwrap RowsProcessed | __error__="" [$__range])))`, ""}}},
		}},
		{"Lines", []panel{
			{title: "Exports", kind: lines, queries: []query{
				{export + ` | json USER_ID_DERIVED="USER_ID_DERIVED", CLIENT_IP="CLIENT_IP", URI="URI", REPORT_DESCRIPTION="REPORT_DESCRIPTION" | line_format "{{.USER_ID_DERIVED}} {{.CLIENT_IP}} {{.URI}} {{.REPORT_DESCRIPTION}}"`, ""}}},
		}},
	}}
}

func setupChanges() dashboard {
	const trail = `{source="eventlog_objects",event_type="SetupAuditTrail",ORG}`
	return dashboard{name: "setup-changes", title: "setup changes", from: "now-7d", about: "What was changed in Setup, by whom: sf-pull objects --object SetupAuditTrail.", rows: []row{
		{"Changes", []panel{
			until("eventlog_objects", "SetupAuditTrail"),
			{title: "Changes", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time(` + trail + ` [$__range]))`, "changes"}}},
			{title: "To users and permissions", kind: stat, width: 6, queries: []query{
				{`sum(count_over_time(` + trail + ` | json Section="Section" | Section =~ ".*(Users|Permission|Sharing).*" [$__range]))`, "changes"}}},
			{title: "Made in somebody's name", kind: stat, width: 6, limits: []step{{0, "green"}, {1, "orange"}}, queries: []query{
				{`sum(count_over_time(` + trail + ` | json DelegateUser="DelegateUser" | DelegateUser != "" [$__range]))`, "changes"}}},
			{title: "By section", kind: series, unit: "short", queries: []query{
				{`sum by (Section) (count_over_time(` + trail + ` | json Section="Section" [$__interval]))`, "{{Section}}"}}},
			{title: "By user", kind: series, unit: "short", queries: []query{
				{`sum by (CreatedById) (count_over_time(` + trail + ` | json CreatedById="CreatedById" [$__interval]))`, "{{CreatedById}}"}}},
			{title: "Actions", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (Section, Action) (count_over_time(` + trail + ` | json Section="Section", Action="Action" [$__range])))`, ""}}},
			{title: "Packages", kind: table, unit: "short", queries: []query{
				{`topk(20, sum by (ResponsibleNamespacePrefix) (count_over_time(` + trail + ` | json ResponsibleNamespacePrefix="ResponsibleNamespacePrefix" | ResponsibleNamespacePrefix != "" [$__range])))`, ""}}},
		}},
		{"Lines", []panel{
			{title: "Changes", kind: lines, height: 14, queries: []query{
				{trail + ` | json CreatedById="CreatedById", Section="Section", Action="Action", Display="Display" | line_format "{{.CreatedById}} {{.Section}} {{.Action}}: {{.Display}}"`, ""}}},
		}},
	}}
}
