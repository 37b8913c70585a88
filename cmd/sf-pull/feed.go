package main

import (
	"encoding/json"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// printJSON prints one object on standard output.
func printJSON(app *cli.App, v any) error {
	enc := json.NewEncoder(app.Stdout)
	enc.SetEscapeHTML(false)
	return sysexits.Wrap(sysexits.IOErr, enc.Encode(v))
}

// observeFeed has the counters of a source in the metrics, the status snapshot
// and the account.
func observeFeed(app *cli.App, source string, stats *feed.Stats) {
	app.Metrics.Collect(func(s *cli.Samples) { collectFeed(s, source, stats.Totals()) })
	app.OnUSR1(func() any { return stats.Totals() })
	app.Report(func() []cli.ReportRow { return reportFeed(source, stats) })
}

func collectFeed(s *cli.Samples, source string, t feed.Totals) {
	fallbacks := int64(0)
	for _, c := range t.Types {
		byType := []string{"source", source, "event_type", c.EventType}
		byObject := []string{"source", source, "object", c.EventType}
		s.Counter("events_ingested_total", "Rows that became records.", float64(c.Written), byType...)
		s.Counter("entries_sampled_out_total", "Rows left out by sampling.", float64(c.SampledOut), byType...)
		s.Gauge("watermark_timestamp_seconds", "Time of the row that the position has reached; 0: none yet.", float64(c.Position)/1e9, byObject...)
		s.Counter("soql_poll_errors_total", "Queries that failed.", float64(t.PollErrors[c.EventType]), byObject...)
		s.Counter("watermark_stalls_total", "Passes that could not get past a time.", float64(t.Stalls[c.EventType]), byObject...)
		fallbacks += c.Fallbacks
	}
	s.Counter("timestamp_fallbacks_total", "Rows without a time of their own.", float64(fallbacks), "source", source)
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

// reportFeed is the account of the run.
func reportFeed(source string, stats *feed.Stats) []cli.ReportRow {
	rows := []cli.ReportRow{}
	for _, c := range stats.Totals().Types {
		rows = append(rows, cli.ReportRow{
			Source: source, EventType: c.EventType,
			In: cli.Count{Name: "read", N: c.Read},
			Out: []cli.Count{
				{Name: "written", N: c.Written}, {Name: "filtered", N: c.Filtered}, {Name: "sampled_out", N: c.SampledOut},
				{Name: "skipped_duplicate", N: c.SkippedDuplicate}, {Name: "dead_lettered", N: c.DeadLettered},
			},
			Info: []cli.Count{
				{Name: "queries", N: c.Queries}, {Name: "bytes", N: c.Bytes}, {Name: "timestamp_fallbacks", N: c.Fallbacks},
				{Name: "source_gaps", N: c.Gaps, Loss: true},
			},
		})
	}
	return rows
}
