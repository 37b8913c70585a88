package loki

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/record"
)

// Z6: what counts for the size of a batch is all of an entry, be it the line
// or its metadata, and not a request is larger than the limit and one entry.
func TestTheSizeOfABatchCountsMetadata(t *testing.T) {
	const limit, entries, text = 64 << 10, 300, 5000
	for name, make := range map[string]func(rec *record.Record){
		"line":     func(rec *record.Record) { rec.Line = append(rec.Line, strings.Repeat("x", text)...) },
		"metadata": func(rec *record.Record) { rec.Metadata[0].Value = []byte(strings.Repeat("x", text)) },
		"names of metadata": func(rec *record.Record) {
			for i := range 100 {
				rec.Metadata = append(rec.Metadata, record.Pair{Name: fmt.Appendf(nil, "%s%d", strings.Repeat("n", text/100), i), Value: []byte("v")})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, tr *trial) {
				tr.cfg.BatchBytes, tr.cfg.StreamRate = limit, 0
				for i := range entries {
					rec := &record.Record{
						Time: time.Now().UnixNano() + int64(i), HasTime: true, Labels: []record.Pair{{Name: []byte("a"), Value: []byte("b")}},
						Metadata: []record.Pair{{Name: []byte("m"), Value: []byte("v")}}, Line: fmt.Append(nil, i), Key: []byte("k"), Value: fmt.Append(nil, i),
					}
					make(rec)
					tr.write(rec)
				}
				tr.start()
				if tr.err != nil || len(tr.loki.stored) != entries || len(tr.letters) != 0 {
					t.Fatalf("%v, %d stored, letters %v", tr.err, len(tr.loki.stored), tr.reasons())
				}
				var sizes []int
				for _, p := range tr.loki.requests {
					sizes = append(sizes, p.size)
				}
				if most := slices.Max(sizes); most > limit+2*text || most < limit/2 {
					t.Errorf("the largest request has %d bytes, the limit is %d", most, limit)
				}
			})
		})
	}
}
