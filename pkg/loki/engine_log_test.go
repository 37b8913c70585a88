package loki

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Neither the log nor the error that ends a run ever shows what is in records,
// although the server's words may quote it.
func TestTheLogQuotesNoRecords(t *testing.T) {
	const content = "TOPSECRET"
	for name, a := range map[string]Answer{
		"label value":   textAnswer(400, "stream '{a=\"b\"}' has label value too long: '"+content+"'"),
		"JSON decoder":  textAnswer(400, "loghttp.PushRequest.Streams: []loghttp.LogProtoStream: ReadString: expects \" or n, parsing ...|"+content),
		"VictoriaLogs":  textAnswer(400, "cannot read Loki protobuf data: cannot parse JSON: "+content),
		"unknown":       textAnswer(400, "forbidden word "+content),
		"several":       textAnswer(400, "1 errors like: what is "+content+"; 2 errors like: max entry size '1' bytes exceeded for stream '{a=\"b\"}' while adding an entry with length '9' bytes"),
		"metadata name": textAnswer(500, "normalization for label name \""+content+"\" resulted in invalid name \"_\""),
	} {
		for _, breaker := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", breaker), func(t *testing.T) {
				bubble(t, func(t *testing.T, tr *trial) {
					var log bytes.Buffer
					tr.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
					tr.cfg.Breaker = breaker
					for i := range 200 {
						tr.entry("k", fmt.Sprint(i), content, time.Minute)
					}
					tr.loki.script = func(int, *modelPush) *Answer { return &a }
					tr.start()
					text := log.String() + fmt.Sprint(tr.err)
					var hint interface{ Hint() string }
					if errors.As(tr.err, &hint) {
						text += hint.Hint()
					}
					if strings.Contains(text, content) {
						t.Errorf("it shows what was sent:\n%s", text)
					}
				})
			})
		}
	}
}

// G8: that Loki shards a stream is said once for each stream in an hour, with
// the flag that helps.
func TestAShardedStreamIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		var log bytes.Buffer
		tr.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		for i := range 2 {
			tr.typed(fmt.Sprint("T", i), "k", fmt.Sprint(i), "line", time.Minute)
		}
		tr.loki.script = func(_ int, p *modelPush) *Answer {
			a := textAnswer(429, "entry with timestamp 2026-07-01 20:00:00 +0000 UTC ignored, reason: 'Per stream rate limit exceeded (limit: 3MB/sec) while attempting to ingest for stream '"+
				strings.TrimSuffix(p.labels, "}")+`,__stream_shard__="3"}' totaling 703B, consider splitting a stream via additional labels',`+"\nuser 'x', total ignored: 5 out of 5 for stream: {}")
			return &a
		}
		ctx, cancel := context.WithTimeout(context.Background(), 150*time.Minute)
		defer cancel()
		tr.run(ctx, &tr.input)
		said := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "shards") {
				said++
				if !strings.Contains(line, "--stream-bytes-per-second") || !strings.Contains(line, `event_type=`) {
					t.Errorf("it does not help: %s", line)
				}
			}
		}
		if said != 6 { // two streams, in three hours begun
			t.Errorf("said %d times", said)
		}
	})
}
