package main

import (
	"strings"
	"sync/atomic"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
)

const elfSource = "eventlogfile"

// observe has the counters of a source in the metrics, the status snapshot and
// the account.
func observe(app *cli.App, stats *eventlog.Stats) {
	app.Metrics.Collect(func(s *cli.Samples) { collect(s, stats.Totals()) })
	app.OnUSR1(func() any { return stats.Totals() })
	app.Report(func() []cli.ReportRow { return report(stats) })
}

func collect(s *cli.Samples, t eventlog.Totals) {
	for _, c := range t.Types {
		byType := []string{"source", elfSource, "event_type", c.EventType}
		s.Counter("events_ingested_total", "Rows that became records.", float64(c.Written), byType...)
		s.Counter("entries_sampled_out_total", "Rows left out by sampling.", float64(c.SampledOut), byType...)
		s.Counter("eventlogfile_files_processed_total", "Files read to their end.", float64(c.Files), "event_type", c.EventType)
		s.Counter("eventlogfile_rows_ingested_total", "Rows of files that became records.", float64(c.Written), "event_type", c.EventType)
		s.Counter("eventlogfile_download_bytes_total", "Bytes of files downloaded.", float64(c.Bytes), "event_type", c.EventType)
		s.Gauge("watermark_timestamp_seconds", "CreatedDate of the file that the position has reached; 0: none yet.", float64(c.Position)/1e9,
			"source", elfSource, "object", c.EventType)
		s.Counter("soql_poll_errors_total", "Queries that failed.", float64(t.PollErrors[c.EventType]), "source", elfSource, "object", c.EventType)
	}
	s.Counter("soql_poll_errors_total", "Queries that failed.", float64(t.PollErrors["discovery"]), "source", elfSource, "object", "discovery")
	fallbacks := int64(0)
	for _, c := range t.Types {
		fallbacks += c.Fallbacks
	}
	s.Counter("timestamp_fallbacks_total", "Rows without a time of their own.", float64(fallbacks), "source", elfSource)
	s.Counter("checkpoint_load_errors_total", "Stored positions that could not be used.", float64(t.LoadErrors), "source", elfSource)
	s.Counter("decode_errors_total", "Stretches of files that are no rows.", float64(t.Letters[string(record.DecodeError)].Entries), "reason", "csv", "topic", "")
	s.Gauge("eventlogfile_cycle_seconds", "Duration of the last pass.", t.Cycle.Seconds())
	downloadErrors := map[string]int64{"listing": 0, "transport": 0, "incomplete": 0}
	for reason, n := range t.DownloadErrors {
		downloadErrors[reason] = n
	}
	for reason, n := range downloadErrors {
		s.Counter("eventlogfile_download_errors_total", "Files or listings that could not be had.", float64(n), "reason", reason)
	}
	for _, reason := range []record.Reason{record.DecodeError, record.SourceGap} {
		l := t.Letters[string(reason)]
		s.Counter("deadletter_entries_written_total", "Dead letters written.", float64(l.Entries), "reason", string(reason))
	}
	bytes := int64(0)
	for _, l := range t.Letters {
		bytes += l.Bytes
	}
	s.Counter("deadletter_bytes_written_total", "Bytes of dead letters written.", float64(bytes))
	s.Counter("deadletter_write_errors_total", "Dead letters that could not be written.", float64(t.LetterErrors))
}

// orgMetrics are the counters of the client, and whether it has ever logged in.
type orgMetrics struct {
	hooks    salesforce.Hooks
	loggedIn atomic.Bool
}

func newOrgMetrics(app *cli.App) *orgMetrics {
	refreshes := app.Metrics.Counter("auth_refreshes_total", "Access tokens fetched.")
	failures := app.Metrics.Counter("auth_errors_total", "Access tokens refused or not to be had.")
	throttled := app.Metrics.Counter("salesforce_api_throttled_total", "Requests refused for a limit, or not made for the reserve.", "api")
	for _, api := range []string{"soql", elfSource} {
		throttled.WithLabelValues(api)
	}
	most := app.Metrics.Gauge("salesforce_limit_max", "Allowance of a limit of the org.", "limit_name")
	left := app.Metrics.Gauge("salesforce_limit_remaining", "What is left of it.", "limit_name")
	const calls = "DailyApiRequests"
	m := &orgMetrics{}
	m.hooks = salesforce.Hooks{
		Login: func(err error) {
			if err != nil {
				failures.WithLabelValues().Inc()
				return
			}
			refreshes.WithLabelValues().Inc()
			m.loggedIn.Store(true)
		},
		Throttle: func(op string, _ salesforce.Kind) {
			api := "soql"
			if strings.HasPrefix(op, "download") {
				api = elfSource
			}
			throttled.WithLabelValues(api).Inc()
		},
		Usage: func(u salesforce.Usage) {
			most.WithLabelValues(calls).Set(float64(u.Max))
			left.WithLabelValues(calls).Set(float64(u.Left()))
		},
	}
	return m
}

// report is the account of the run.
func report(stats *eventlog.Stats) []cli.ReportRow {
	rows := []cli.ReportRow{}
	for _, c := range stats.Totals().Types {
		row := accountRow(c)
		row.Info = append([]cli.Count{{Name: "files", N: c.Files}}, row.Info...)
		rows = append(rows, row)
	}
	return rows
}

// accountRow is the account of one event type.
func accountRow(c eventlog.Count) cli.ReportRow {
	return cli.ReportRow{
		Source: elfSource, EventType: c.EventType,
		In: cli.Count{Name: "read", N: c.Read},
		Out: []cli.Count{
			{Name: "written", N: c.Written}, {Name: "filtered", N: c.Filtered}, {Name: "sampled_out", N: c.SampledOut},
			{Name: "skipped_duplicate", N: c.SkippedDuplicate}, {Name: "dead_lettered", N: c.DeadLettered},
		},
		Info: []cli.Count{
			{Name: "bytes", N: c.Bytes}, {Name: "timestamp_fallbacks", N: c.Fallbacks},
			{Name: "source_gaps", N: c.Gaps, Loss: true},
		},
	}
}
