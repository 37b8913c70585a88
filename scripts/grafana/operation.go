package main

// Colours from good to bad, at the values given.
func above(warn, bad float64) []step {
	return []step{{0, "green"}, {warn, "orange"}, {bad, "red"}}
}

func below(bad, warn float64) []step {
	return []step{{0, "red"}, {bad, "orange"}, {warn, "green"}}
}

var noneIsGood = []step{{0, "green"}, {1, "red"}}

func dashboards() []dashboard {
	return []dashboard{
		lanes(), sources(), limits(), deadLetters(), completeness(),
		logins(), apiUse(), reportExports(), setupChanges(),
	}
}

func lanes() dashboard {
	return dashboard{name: "lanes", title: "lanes", from: "now-6h", about: "What runs, how fast it goes, and what holds it up.", rows: []row{
		{"Now", []panel{
			{title: "Programs", kind: stat, about: "Processes that are scraped, by program.", width: 6, queries: []query{
				{`count by (program) (sf2loki_build_info{ORG})`, "{{program}}"}}},
			{title: "Waiting", kind: stat, unit: "short", about: "Entries that are read and not settled.", queries: []query{
				{`sum(sf2loki_queue_depth{ORG})`, "entries"}}},
			{title: "Since Loki stored something", kind: stat, unit: "s", limits: above(3600, 6*3600), queries: []query{
				{`time() - max(sf2loki_last_push_success_timestamp_seconds{ORG} > 0)`, "ago"}}},
			{title: "Since a position was stored", kind: stat, unit: "s", limits: above(3600, 6*3600), queries: []query{
				{`time() - max(sf2loki_last_checkpoint_timestamp_seconds{ORG} > 0)`, "ago"}}},
			{title: "Streams held", kind: stat, about: "Streams that back off or wait; /readyz of loki-push says why.", width: 3, limits: above(1, 10), queries: []query{
				{`sum(sf2loki_loki_streams_held{ORG})`, "streams"}}},
			{title: "Entries lost", kind: stat, about: "Refused and captured nowhere, or dropped for the budget.", width: 3, limits: noneIsGood, queries: []query{
				{`sum(sf2loki_account_entries_total{program="loki-push",fate=~"discarded_.+|dropped_budget",ORG})`, "entries"}}},
		}},
		{"Flow", []panel{
			{title: "Read from Salesforce", kind: series, unit: "cps", queries: []query{
				{`sum by (source) (rate(sf2loki_events_ingested_total{ORG}[$__rate_interval]))`, "{{source}}"}}},
			{title: "Stored by Loki", kind: series, unit: "cps", queries: []query{
				{`sum by (source) (rate(sf2loki_loki_entries_delivered_total{ORG}[$__rate_interval]))`, "{{source}}"}}},
			{title: "Age when stored, 95 %", kind: series, unit: "s", about: "How far behind the events Loki is. Event log files come three to six hours late by themselves.", queries: []query{
				{`histogram_quantile(0.95, sum by (source, le) (rate(sf2loki_ingest_lag_seconds_bucket{ORG}[$__rate_interval])))`, "{{source}}"}}},
			{title: "Not stored, by reason", kind: series, unit: "short", about: "Captured as dead letters or not.", queries: []query{
				{`sum by (reason) (increase(sf2loki_loki_entries_dropped_total{ORG}[$__rate_interval])) > 0`, "{{reason}}"}}},
		}},
		{"Loki", []panel{
			{title: "Requests", kind: series, unit: "reqps", queries: []query{
				{`sum by (outcome) (rate(sf2loki_loki_push_total{ORG}[$__rate_interval]))`, "{{outcome}}"}}},
			{title: "Time of a request", kind: series, unit: "s", queries: []query{
				{`histogram_quantile(0.50, sum by (le) (rate(sf2loki_loki_push_duration_seconds_bucket{ORG}[$__rate_interval])))`, "50 %"},
				{`histogram_quantile(0.99, sum by (le) (rate(sf2loki_loki_push_duration_seconds_bucket{ORG}[$__rate_interval])))`, "99 %"}}},
			{title: "Bytes pushed", kind: series, unit: "Bps", about: "Compressed, on the wire.", width: 8, queries: []query{
				{`sum(rate(sf2loki_loki_bytes_pushed_total{ORG}[$__rate_interval]))`, "pushed"}}},
			{title: "Streams", kind: series, width: 8, queries: []query{
				{`sum(sf2loki_loki_streams{ORG})`, "not idle"}, {`sum(sf2loki_loki_streams_held{ORG})`, "held"}}},
			{title: "Memory of what waits", kind: series, unit: "bytes", width: 8, queries: []query{
				{`sum by (instance) (sf2loki_buffered_bytes{ORG})`, "{{instance}}"}}},
			{title: "Daily budget used", kind: series, unit: "bytes", queries: []query{
				{`max by (org, instance) (sf2loki_egress_budget_used_bytes{ORG})`, "{{org}} {{instance}}"}}},
			{title: "Paused by the budget", kind: series, queries: []query{
				{`max by (org, instance) (sf2loki_egress_paused{ORG})`, "{{org}} {{instance}}"}}},
		}},
		{"Positions and leases", []panel{
			{title: "Acknowledgements", kind: series, unit: "cps", queries: []query{
				{`sum by (outcome) (rate(sf2loki_checkpoint_acks_total{ORG}[$__rate_interval]))`, "{{outcome}}"},
				{`sum(rate(sf2loki_acks_total{ORG}[$__rate_interval]))`, "from loki-push"}}},
			{title: "Writes to the store", kind: series, unit: "wps", queries: []query{
				{`sum(rate(sf2loki_checkpoint_writes_total{ORG}[$__rate_interval]))`, "writes"}}},
			{title: "Leaders", kind: series, about: "One for each lane that has a lease.", queries: []query{
				{`max by (lane, instance) (sf2loki_leader{ORG})`, "{{lane}} {{instance}}"}}},
			{title: "Epoch", kind: series, about: "Goes up by one when the leader changes.", queries: []query{
				{`max by (lane) (sf2loki_lease_epoch{ORG})`, "{{lane}}"}}},
		}},
		{"Runs and processes", []panel{
			{title: "Status of last runs", kind: table, about: "Of programs that write a metrics file, as one-shots do.", queries: []query{
				{`max by (org, instance_name, program) (sf2loki_run_exit_status{ORG})`, ""}}},
			{title: "Since last runs ended", kind: table, unit: "s", queries: []query{
				{`time() - max by (org, instance_name, program) (sf2loki_run_end_timestamp_seconds{ORG})`, ""}}},
			{title: "Memory", kind: series, unit: "bytes", queries: []query{
				{`sum by (instance) (process_resident_memory_bytes and on (instance) sf2loki_build_info{ORG})`, "{{instance}}"}}},
			{title: "CPU", kind: series, unit: "percentunit", queries: []query{
				{`sum by (instance) (rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) sf2loki_build_info{ORG})`, "{{instance}}"}}},
		}},
	}}
}

func sources() dashboard {
	return dashboard{name: "sources", title: "sources", from: "now-24h", about: "Each source of Salesforce: how far it has come, and what stands in its way.", rows: []row{
		{"Positions", []panel{
			{title: "Age of positions", kind: series, unit: "s", about: "Now, less the time of the newest that is behind a position. A type without events stays where it is.", queries: []query{
				{`time() - max by (source) (sf2loki_watermark_timestamp_seconds{ORG} > 0)`, "{{source}}"}}},
			{title: "Age by object", kind: table, unit: "s", queries: []query{
				{`sort_desc(time() - max by (org, source, object) (sf2loki_watermark_timestamp_seconds{ORG} > 0))`, ""}}},
			{title: "Rows", kind: series, unit: "short", queries: []query{
				{`topk(15, sum by (event_type) (increase(sf2loki_events_ingested_total{ORG}[$__rate_interval])))`, "{{event_type}}"}}},
			{title: "Left out", kind: series, unit: "short", about: "By rules and by sampling, as it was asked for.", queries: []query{
				{`sum by (rule) (increase(sf2loki_rows_filtered_total{ORG}[$__rate_interval]))`, "rule {{rule}}"},
				{`sum by (event_type) (increase(sf2loki_entries_sampled_out_total{ORG}[$__rate_interval])) > 0`, "sampled {{event_type}}"}}},
		}},
		{"Event log files", []panel{
			{title: "Files", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (event_type) (increase(sf2loki_eventlogfile_files_processed_total{ORG}[$__rate_interval])) > 0`, "{{event_type}}"}}},
			{title: "Rows of files", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (event_type) (increase(sf2loki_eventlogfile_rows_ingested_total{ORG}[$__rate_interval])) > 0`, "{{event_type}}"}}},
			{title: "Downloads", kind: series, unit: "Bps", width: 8, queries: []query{
				{`sum(rate(sf2loki_eventlogfile_download_bytes_total{ORG}[$__rate_interval]))`, "bytes"}}},
			{title: "Time of a pass", kind: series, unit: "s", queries: []query{
				{`max by (org, instance) (sf2loki_eventlogfile_cycle_seconds{ORG})`, "{{org}} {{instance}}"}}},
			{title: "Downloads that failed", kind: series, unit: "short", queries: []query{
				{`sum by (reason) (increase(sf2loki_eventlogfile_download_errors_total{ORG}[$__rate_interval])) > 0`, "{{reason}}"}}},
		}},
		{"Queries", []panel{
			{title: "Queries that failed", kind: series, unit: "short", queries: []query{
				{`sum by (source, object) (increase(sf2loki_soql_poll_errors_total{ORG}[$__rate_interval])) > 0`, "{{source}} {{object}}"}}},
			{title: "Passes that could not get past a time", kind: series, unit: "short", queries: []query{
				{`sum by (object) (increase(sf2loki_watermark_stalls_total{ORG}[$__rate_interval]))`, "{{object}}"}}},
		}},
		{"Topics", []panel{
			{title: "Streams that are open", kind: series, queries: []query{
				{`min by (topic) (sf2loki_pubsub_stream_up{ORG})`, "{{topic}}"}}},
			{title: "Since a position was stored", kind: series, unit: "s", queries: []query{
				{`time() - max by (topic) (sf2loki_last_replay_commit_timestamp_seconds{ORG} > 0)`, "{{topic}}"}}},
			{title: "Events that may still come", kind: series, queries: []query{
				{`sum by (topic) (sf2loki_pubsub_pending_credits{ORG})`, "{{topic}}"}}},
			{title: "Trouble", kind: series, unit: "short", queries: []query{
				{`sum by (topic) (increase(sf2loki_pubsub_reconnects_total{ORG}[$__rate_interval])) > 0`, "opened again {{topic}}"},
				{`sum by (topic) (increase(sf2loki_pubsub_stream_stalls_total{ORG}[$__rate_interval])) > 0`, "silent {{topic}}"},
				{`sum by (topic) (increase(sf2loki_pubsub_replay_fallbacks_total{ORG}[$__rate_interval])) > 0`, "position lost {{topic}}"},
				{`sum by (topic) (increase(sf2loki_pubsub_decode_stalls_total{ORG}[$__rate_interval])) > 0`, "undecodable {{topic}}"},
				{`sum by (topic) (increase(sf2loki_pubsub_commit_errors_total{ORG}[$__rate_interval])) > 0`, "not committed {{topic}}"}}},
			{title: "Not decoded", kind: series, unit: "short", queries: []query{
				{`sum by (reason, topic) (increase(sf2loki_decode_errors_total{ORG}[$__rate_interval])) > 0`, "{{reason}} {{topic}}"}}},
			{title: "Schemas known", kind: series, queries: []query{
				{`max by (instance) (sf2loki_schema_cache_size{ORG})`, "{{instance}}"}}},
		}},
		{"Debug logs", []panel{
			{title: "Logs", kind: series, unit: "short", width: 8, queries: []query{
				{`sum(increase(sf2loki_apexlog_logs_ingested_total{ORG}[$__rate_interval]))`, "logs"}}},
			{title: "Downloads of bodies", kind: series, unit: "Bps", width: 8, queries: []query{
				{`sum(rate(sf2loki_apexlog_download_bytes_total{ORG}[$__rate_interval]))`, "bytes"}}},
			{title: "Bodies not had", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (reason) (increase(sf2loki_apexlog_bodies_skipped_total{ORG}[$__rate_interval]))`, "skipped: {{reason}}"},
				{`sum by (reason) (increase(sf2loki_apexlog_download_errors_total{ORG}[$__rate_interval]))`, "failed: {{reason}}"}}},
		}},
		{"Shape", []panel{
			{title: "Records without a time of their own", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (source) (increase(sf2loki_timestamp_fallbacks_total{ORG}[$__rate_interval]))`, "{{source}}"}}},
			{title: "Lines that were cut", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (source, event_type) (increase(sf2loki_lines_truncated_total{ORG}[$__rate_interval])) > 0`, "{{source}} {{event_type}}"}}},
			{title: "Label columns with too many values", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (event_type, column) (increase(sf2loki_label_values_overflowed_total{ORG}[$__rate_interval])) > 0`, "{{event_type}} {{column}}"}}},
		}},
	}}
}

func limits() dashboard {
	const left = `sf2loki_salesforce_limit_remaining{limit_name="DailyApiRequests",ORG}`
	const most = `sf2loki_salesforce_limit_max{limit_name="DailyApiRequests",ORG}`
	return dashboard{name: "limits", title: "Salesforce limits", from: "now-24h", about: "What the org allows and what is left of it. All limits need sf-pull limits --follow; the API calls do not.", rows: []row{
		{"API calls of the day", []panel{
			{title: "Left", kind: stat, unit: "percentunit", about: "Below the reserve, 10 % unless told otherwise, sf-pull makes no requests.", limits: below(0.1, 0.25), queries: []query{
				{`min by (org) (` + left + ` / ` + most + `)`, "{{org}}"}}},
			{title: "Calls left", kind: stat, unit: "short", queries: []query{{`min by (org) (` + left + `)`, "{{org}}"}}},
			{title: "Calls of a day", kind: stat, unit: "short", queries: []query{{`max by (org) (` + most + `)`, "{{org}}"}}},
			{title: "Refused or not made", kind: stat, unit: "short", about: "Requests refused for a limit, or not made for the reserve, in a day.", limits: noneIsGood, queries: []query{
				{`sum(increase(sf2loki_salesforce_api_throttled_total{ORG}[1d]))`, "requests"}}},
			{title: "Logins that failed", kind: stat, unit: "short", about: "In a day.", limits: noneIsGood, queries: []query{
				{`sum(increase(sf2loki_auth_errors_total{ORG}[1d]))`, "logins"}}},
			{title: "Share left", kind: series, unit: "percentunit", queries: []query{
				{`min by (org) (` + left + ` / ` + most + `)`, "{{org}}"}}},
			{title: "Refused or not made, by interface", kind: series, unit: "short", queries: []query{
				{`sum by (api) (increase(sf2loki_salesforce_api_throttled_total{ORG}[$__rate_interval]))`, "{{api}}"}}},
		}},
		{"All limits", []panel{
			{title: "Used", kind: bars, unit: "percentunit", height: 14, limits: above(0.75, 0.9), queries: []query{
				{`sort_desc(1 - min by (limit_name) (sf2loki_salesforce_limit_remaining{ORG} / (sf2loki_salesforce_limit_max{ORG} > 0)))`, "{{limit_name}}"}}},
			{title: "Left of each", kind: table, unit: "short", height: 14, queries: []query{
				{`min by (org, limit_name) (sf2loki_salesforce_limit_remaining{ORG})`, ""}}},
		}},
		{"Access", []panel{
			{title: "Access tokens", kind: series, unit: "short", queries: []query{
				{`sum by (org) (increase(sf2loki_auth_refreshes_total{ORG}[$__rate_interval]))`, "fetched {{org}}"},
				{`sum by (org) (increase(sf2loki_auth_errors_total{ORG}[$__rate_interval]))`, "failed {{org}}"}}},
			{title: "Questions for the limits that failed", kind: series, unit: "short", queries: []query{
				{`sum by (org) (increase(sf2loki_salesforce_limits_poll_errors_total{ORG}[$__rate_interval]))`, "{{org}}"}}},
		}},
	}}
}

func deadLetters() dashboard {
	return dashboard{name: "dead-letters", title: "dead letters", from: "now-7d", about: "What Loki refused, what waits for a replay, and how long there is for it.", rows: []row{
		{"Now", []panel{
			{title: "Waiting", kind: stat, limits: above(1, 1000), queries: []query{
				{`sum(sf2loki_deadletter_pending_entries{ORG})`, "letters"}}},
			{title: "Oldest capture", kind: stat, unit: "s", limits: above(86400, 3*86400), queries: []query{
				{`time() - min(sf2loki_deadletter_oldest_pending_timestamp_seconds{ORG} > 0)`, "ago"}}},
			{title: "Oldest entry", kind: stat, unit: "s", about: "Loki takes none older than seven days unless it is told otherwise.", limits: above(3*86400, 5*86400), queries: []query{
				{`time() - min(sf2loki_deadletter_oldest_pending_event_timestamp_seconds{ORG} > 0)`, "ago"}}},
			{title: "Fullest spool", kind: stat, unit: "percentunit", limits: above(0.7, 0.9), queries: []query{
				{`max(sf2loki_deadletter_spool_bytes{ORG} / (sf2loki_deadletter_spool_limit_bytes{ORG} > 0))`, "full"}}},
			{title: "Not captured", kind: stat, about: "Times that a letter could not be written.", limits: noneIsGood, queries: []query{
				{`sum(sf2loki_deadletter_write_errors_total{ORG})`, "times"}}},
			{title: "Removed before a replay", kind: stat, about: "Copies of lines that were delivered cut are not counted.", limits: noneIsGood, queries: []query{
				{`sum(sf2loki_deadletter_pruned_unreplayed_total{reason!="truncated_copy",ORG})`, "letters"}}},
		}},
		{"Capture", []panel{
			{title: "Letters by reason", kind: series, unit: "short", queries: []query{
				{`sum by (reason) (increase(sf2loki_deadletter_entries_written_total{ORG}[$__rate_interval])) > 0`, "{{reason}}"}}},
			{title: "Refused entries by type", kind: series, unit: "short", queries: []query{
				{`sum by (source, event_type) (increase(sf2loki_loki_entries_dropped_total{ORG}[$__rate_interval])) > 0`, "{{source}} {{event_type}}"}}},
			{title: "Bytes of letters", kind: series, unit: "Bps", queries: []query{
				{`sum(rate(sf2loki_deadletter_bytes_written_total{ORG}[$__rate_interval]))`, "written"}}},
			{title: "What cannot be had again by a replay", kind: series, unit: "short", about: "Gaps of a source and what could not be decoded: the letter says what fetches it.", queries: []query{
				{`sum by (reason) (increase(sf2loki_deadletter_entries_written_total{reason=~"source_gap|decode_error",ORG}[$__rate_interval]))`, "{{reason}}"}}},
		}},
		{"Spool", []panel{
			{title: "Waiting, by spool", kind: series, unit: "short", width: 8, queries: []query{
				{`max by (org, instance, instance_name) (sf2loki_deadletter_pending_entries{ORG})`, "{{org}} {{instance}} {{instance_name}}"}}},
			{title: "Bytes", kind: series, unit: "bytes", width: 8, queries: []query{
				{`max by (org, instance, instance_name) (sf2loki_deadletter_spool_bytes{ORG})`, "{{org}} {{instance}} {{instance_name}}"}}},
			{title: "Files", kind: series, width: 8, queries: []query{
				{`max by (org, instance, instance_name) (sf2loki_deadletter_spool_files{ORG})`, "{{org}} {{instance}} {{instance_name}}"}}},
		}},
		{"Replay", []panel{
			{title: "Delivered by replays", kind: series, unit: "short", queries: []query{
				{`sum(increase(sf2loki_deadletter_replayed_total{ORG}[$__rate_interval]))`, "replayed"}}},
			{title: "Refused again", kind: series, unit: "short", queries: []query{
				{`sum by (reason) (increase(sf2loki_deadletter_replay_failed_total{ORG}[$__rate_interval])) > 0`, "{{reason}}"}}},
		}},
	}}
}

func completeness() dashboard {
	return dashboard{name: "completeness", title: "completeness", from: "now-24h", about: "Whether everything that Salesforce had is in Loki, or is known not to be.", rows: []row{
		{"Audit", []panel{
			{title: "Complete", kind: stat, about: "The last audit: 1 when it found everything.", limits: []step{{0, "red"}, {1, "green"}}, queries: []query{
				{`min by (instance_name) (sf2loki_audit_complete{ORG})`, "{{instance_name}}"}}},
			{title: "Holes", kind: stat, about: "Each has the command that fills it, in the report.", limits: noneIsGood, queries: []query{
				{`sum by (instance_name) (sf2loki_audit_findings{verdict="hole",ORG})`, "{{instance_name}}"}}},
			{title: "Too early to tell", kind: stat, about: "Files that may still come, or that are being pulled.", queries: []query{
				{`sum by (instance_name) (sf2loki_audit_findings{verdict="too early",ORG})`, "{{instance_name}}"}}},
			{title: "Since the last audit", kind: stat, unit: "s", limits: above(2*86400, 3*86400), queries: []query{
				{`time() - max by (instance_name) (sf2loki_audit_timestamp_seconds{ORG})`, "{{instance_name}}"}}},
			{title: "Gaps", kind: stat, about: "What Salesforce listed and could not be had; each is a dead letter with the command that fetches it.", limits: noneIsGood, queries: []query{
				{`sum(sf2loki_deadletter_entries_written_total{reason="source_gap",ORG})`, "gaps"}}},
			{title: "Entries lost", kind: stat, about: "Refused and captured nowhere, or dropped for the budget.", limits: noneIsGood, queries: []query{
				{`sum(sf2loki_account_entries_total{program="loki-push",fate=~"discarded_.+|dropped_budget",ORG})`, "entries"}}},
		}},
		{"Accounts", []panel{
			{title: "sf-pull", kind: series, unit: "short", about: "What was read, and what became of it.", width: 8, queries: []query{
				{`sum by (fate) (increase(sf2loki_account_entries_total{program="sf-pull",ORG}[$__rate_interval]))`, "{{fate}}"}}},
			{title: "loki-push", kind: series, unit: "short", width: 8, queries: []query{
				{`sum by (fate) (increase(sf2loki_account_entries_total{program="loki-push",ORG}[$__rate_interval]))`, "{{fate}}"},
				{`sum(sf2loki_queue_depth{ORG})`, "unsettled"}}},
			{title: "ckpt", kind: series, unit: "short", about: "Acknowledgements.", width: 8, queries: []query{
				{`sum by (fate) (increase(sf2loki_account_entries_total{program="ckpt",ORG}[$__rate_interval]))`, "{{fate}}"}}},
			{title: "Of each type, in the time shown", kind: table, unit: "short", width: 24, about: "Read by sf-pull, then what became of it, by program.", queries: []query{
				{`sum by (source, event_type, program, fate) (increase(sf2loki_account_entries_total{program=~"sf-pull|loki-push",ORG}[$__range])) > 0`, ""}}},
		}},
		{"What was left open", []panel{
			{title: "Oldest position", kind: series, unit: "s", about: "A type without events stays where it is.", queries: []query{
				{`time() - max by (source) (sf2loki_watermark_timestamp_seconds{ORG} > 0)`, "{{source}}"}}},
			{title: "Positions that could not be used", kind: series, unit: "short", queries: []query{
				{`sum by (source) (increase(sf2loki_checkpoint_load_errors_total{ORG}[$__rate_interval]))`, "{{source}}"}}},
			{title: "Acknowledgements read", kind: series, unit: "short", queries: []query{
				{`sum by (source) (increase(sf2loki_checkpoint_acks_read_total{ORG}[$__rate_interval]))`, "{{source}}"}}},
			{title: "Letters that wait", kind: series, unit: "short", queries: []query{
				{`sum by (org) (sf2loki_deadletter_pending_entries{ORG})`, "{{org}}"}}},
		}},
	}}
}
