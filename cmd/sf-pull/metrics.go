package main

import (
	"strings"
	"sync/atomic"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/eventlog"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/tally"
)

// observe has the counters of a source in the metrics, the status snapshot and
// the account, and its failures in the readiness. more adds the metrics of this
// source alone.
func observe(app *cli.App, source string, stats *tally.Stats, more func(s *cli.Samples, t tally.Totals)) {
	totals := stats.Totals
	app.OnReady(stats.Ready) // from here on it is logged in
	app.Metrics.Collect(func(s *cli.Samples) {
		t := totals()
		collect(s, source, t)
		more(s, t)
	})
	app.OnUSR1(func() any { return totals() })
	app.Report(func() []cli.ReportRow { return report(source, totals()) })
}

// collect are the metrics that every source has.
func collect(s *cli.Samples, source string, t tally.Totals) {
	fallbacks := int64(0)
	for _, c := range t.Types {
		byType := []string{"source", source, "event_type", c.EventType}
		s.Counter("events_ingested_total", "Events that became records.", float64(c.Written), byType...)
		s.Counter("entries_sampled_out_total", "Events left out by sampling.", float64(c.SampledOut), byType...)
		fallbacks += c.Fallbacks
	}
	s.Counter("timestamp_fallbacks_total", "Events without a time of their own.", float64(fallbacks), "source", source)
	s.Counter("checkpoint_load_errors_total", "Stored positions that could not be used.", float64(t.LoadErrors), "source", source)
	bytes := int64(0)
	for _, reason := range []record.Reason{record.DecodeError, record.SourceGap} {
		l := t.Letters[string(reason)]
		bytes += l.Bytes
		s.Counter("deadletter_entries_written_total", "Dead letters written.", float64(l.Entries), "reason", string(reason))
	}
	s.Counter("deadletter_bytes_written_total", "Bytes of dead letters written.", float64(bytes))
	s.Counter("deadletter_write_errors_total", "Dead letters that could not be written.", float64(t.LetterErrors))
}

// collectPolls are the metrics of sources that are asked by queries.
func collectPolls(s *cli.Samples, source string, t tally.Totals) {
	for _, c := range t.Types {
		byObject := []string{"source", source, "object", c.EventType}
		s.Gauge("watermark_timestamp_seconds", "Time that the position has reached; 0: none yet.", float64(c.Position)/1e9, byObject...)
		s.Counter("soql_poll_errors_total", "Queries that failed.", float64(t.PollErrors[c.EventType]), byObject...)
	}
}

// collectFiles are the metrics of event log files.
func collectFiles(s *cli.Samples, t tally.Totals) {
	collectPolls(s, eventlog.SourceLabel, t)
	for _, c := range t.Types {
		s.Counter("eventlogfile_files_processed_total", "Files read to their end.", float64(c.Files), "event_type", c.EventType)
		s.Counter("eventlogfile_rows_ingested_total", "Rows of files that became records.", float64(c.Written), "event_type", c.EventType)
		s.Counter("eventlogfile_download_bytes_total", "Bytes of files downloaded.", float64(c.Bytes), "event_type", c.EventType)
	}
	s.Counter("soql_poll_errors_total", "Queries that failed.", float64(t.PollErrors["discovery"]), "source", eventlog.SourceLabel, "object", "discovery")
	s.Counter("decode_errors_total", "Events that could not be decoded, stretches of files that are no rows.", float64(t.Letters[string(record.DecodeError)].Entries), "reason", "csv", "topic", "")
	s.Gauge("eventlogfile_cycle_seconds", "Duration of the last pass.", t.Cycle.Seconds())
	downloadErrors := map[string]int64{"listing": 0, "transport": 0, "incomplete": 0}
	for reason, n := range t.DownloadErrors {
		downloadErrors[reason] = n
	}
	for reason, n := range downloadErrors {
		s.Counter("eventlogfile_download_errors_total", "Files or listings that could not be had.", float64(n), "reason", reason)
	}
}

// collectRows are the metrics of objects and debug logs.
func collectRows(s *cli.Samples, source string, t tally.Totals) {
	collectPolls(s, source, t)
	for _, c := range t.Types {
		s.Counter("watermark_stalls_total", "Passes that could not get past a time.", float64(t.Stalls[c.EventType]), "source", source, "object", c.EventType)
	}
}

// collectBodies are the metrics of the bodies of debug logs.
func collectBodies(s *cli.Samples, t tally.Totals) {
	logs, bytes := int64(0), int64(0)
	for _, c := range t.Types {
		logs += c.Written
		bytes += c.Bytes
	}
	s.Counter("apexlog_logs_ingested_total", "Debug logs that became records.", float64(logs))
	s.Counter("apexlog_download_bytes_total", "Bytes of bodies downloaded.", float64(bytes))
	for _, reason := range []string{"size", "download_error", "gone"} {
		s.Counter("apexlog_bodies_skipped_total", "Debug logs written without their bodies.", float64(t.BodiesSkipped[reason]), "reason", reason)
	}
	failed := map[string]int64{"transport": 0}
	for reason, n := range t.DownloadErrors {
		failed[reason] = n
	}
	for reason, n := range failed {
		s.Counter("apexlog_download_errors_total", "Bodies that could not be had.", float64(n), "reason", reason)
	}
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
	for _, api := range []string{"soql", eventlog.SourceLabel} {
		throttled.WithLabelValues(api)
	}
	most := app.Metrics.Gauge("salesforce_limit_max", "Allowance of a limit of the org.", "limit_name")
	left := app.Metrics.Gauge("salesforce_limit_remaining", "What is left of it.", "limit_name")
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
				api = eventlog.SourceLabel
			}
			throttled.WithLabelValues(api).Inc()
		},
		Usage: func(u salesforce.Usage) {
			most.WithLabelValues(callsLimit).Set(float64(u.Max))
			left.WithLabelValues(callsLimit).Set(float64(u.Left()))
		},
	}
	return m
}

// report is the account of the run.
func report(source string, t tally.Totals) []cli.ReportRow {
	rows := []cli.ReportRow{}
	for _, c := range t.Types {
		row := accountRow(c)
		row.Source = source
		switch source {
		case eventlog.SourceLabel:
			row.Info = append([]cli.Count{{Name: "files", N: c.Files}}, row.Info...)
		case pubsub.SourceLabel:
		default:
			row.Info = append([]cli.Count{{Name: "queries", N: c.Queries}}, row.Info...)
		}
		rows = append(rows, row)
	}
	return rows
}

// accountRow is the account of one event type.
func accountRow(c tally.Count) cli.ReportRow {
	return cli.ReportRow{
		EventType: c.EventType,
		In:        cli.Count{Name: "read", N: c.Read},
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
