package main

import (
	"sf2loki/pkg/cli"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/record"
)

// observePubsub has the counters of a source in the metrics, the status
// snapshot and the account.
func observePubsub(app *cli.App, stats *pubsub.Stats) {
	app.Metrics.Collect(func(s *cli.Samples) { collectPubsub(s, stats.Totals()) })
	app.OnUSR1(func() any { return stats.Totals() })
	app.Report(func() []cli.ReportRow { return reportPubsub(stats) })
}

func collectPubsub(s *cli.Samples, t pubsub.Totals) {
	const source = pubsub.SourceLabel
	fallbacks := int64(0)
	for _, c := range t.Types {
		byType := []string{"source", source, "event_type", c.EventType}
		s.Counter("events_ingested_total", "Events that became records.", float64(c.Written), byType...)
		s.Counter("entries_sampled_out_total", "Events left out by sampling.", float64(c.SampledOut), byType...)
		fallbacks += c.Fallbacks
	}
	for _, c := range t.Topics {
		collectTopic(s, &c)
	}
	s.Gauge("schema_cache_size", "Schemas that are known.", float64(t.Schemas))
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

func collectTopic(s *cli.Samples, c *pubsub.TopicCount) {
	up := 0.0
	if c.Up {
		up = 1
	}
	s.Gauge("pubsub_stream_up", "Whether the topic's stream is open.", up, "topic", c.Topic)
	s.Gauge("pubsub_pending_credits", "Events that the topic's stream may still bring.", float64(c.Credit), "topic", c.Topic)
	s.Counter("pubsub_reconnects_total", "Streams that ended and were opened again.", float64(c.Reconnects), "topic", c.Topic)
	s.Counter("pubsub_replay_fallbacks_total", "Positions that Salesforce refused.", float64(c.Lost), "topic", c.Topic)
	s.Counter("pubsub_stream_stalls_total", "Streams that fell silent.", float64(c.Stalls), "topic", c.Topic)
	s.Counter("pubsub_decode_stalls_total", "Times that no event of the topic could be decoded for a while.", float64(c.DecodeStalls), "topic", c.Topic)
	s.Counter("pubsub_commit_errors_total", "Positions of a managed subscription that Salesforce did not take.", float64(c.CommitErrors), "topic", c.Topic)
	for reason, n := range c.DecodeErrors {
		s.Counter("decode_errors_total", "Events that could not be decoded.", float64(n), "reason", reason, "topic", c.Topic)
	}
}

// reportPubsub is the account of the run.
func reportPubsub(stats *pubsub.Stats) []cli.ReportRow {
	rows := []cli.ReportRow{}
	for _, c := range stats.Totals().Types {
		rows = append(rows, cli.ReportRow{
			Source: pubsub.SourceLabel, EventType: c.EventType,
			In: cli.Count{Name: "read", N: c.Read},
			Out: []cli.Count{
				{Name: "written", N: c.Written}, {Name: "filtered", N: c.Filtered}, {Name: "sampled_out", N: c.SampledOut},
				{Name: "skipped_duplicate", N: c.SkippedDuplicate}, {Name: "dead_lettered", N: c.DeadLettered},
			},
			Info: []cli.Count{
				{Name: "bytes", N: c.Bytes}, {Name: "timestamp_fallbacks", N: c.Fallbacks},
				{Name: "source_gaps", N: c.Gaps, Loss: true},
			},
		})
	}
	return rows
}
