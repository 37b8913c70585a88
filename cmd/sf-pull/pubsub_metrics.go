package main

import (
	"sf2loki/pkg/cli"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/tally"
)

// observePubsub observes the source, whose status shows its topics too.
func observePubsub(app *cli.App, stats *pubsub.Stats) {
	observe(app, pubsub.SourceLabel, stats.Stats, func(s *cli.Samples, _ tally.Totals) { collectTopics(s, stats.Totals()) })
	app.OnUSR1(func() any { return stats.Totals() })
}

func collectTopics(s *cli.Samples, t pubsub.Totals) {
	for _, c := range t.Topics {
		collectTopic(s, &c)
	}
	s.Gauge("schema_cache_size", "Schemas that are known.", float64(t.Schemas))
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
		s.Counter("decode_errors_total", "Events that could not be decoded, stretches of files that are no rows.", float64(n), "reason", reason, "topic", c.Topic)
	}
}
