package lokitest

import (
	"fmt"
	"testing"
	"time"

	"github.com/golang/snappy"
)

// What the parser takes, it takes again as it prints it.
func FuzzParseLabels(f *testing.F) {
	for _, s := range []string{`{}`, ``, `{a="b"}`, `{a='b"', "c.d"="é\n",}`, "foo{a=`b`}", `{a="\xff"}`, `{a="b" c="d"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		labels, err := parseLabels(s)
		if err != nil {
			return
		}
		again, err := parseLabels(labelString(labels))
		if err != nil || fmt.Sprintf("%q", again) != fmt.Sprintf("%q", labels) {
			t.Fatalf("%q is %q, then %q, %v", s, labels, again, err)
		}
	})
}

// No body takes the server down, and what it answers with 204 or 400 is there
// or counted.
func FuzzPush(f *testing.F) {
	f.Add(encodeStream(`{app="a"}`, in{0, "x", []Label{{"k", "v"}}}), false)
	f.Add([]byte(`{"streams":[{"stream":{"app":"a"},"values":[["1782936000000000000","x\ud83d\ude00",{"k":"v"}]]}]}`), true)
	f.Add([]byte(`{"streams":[{"stream":{"a":1},"values":[["1"],[]]},{"stream":null,"values":null}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		h := harness{t: t, Server: &Server{config: Config{Now: func() time.Time { return now }}, tenants: map[string]*tenant{}, metrics: map[discard]int{},
			stats: Stats{Discarded: map[string]int{}}}}
		if !isJSON {
			body = snappy.Encode(nil, body)
		}
		raw, refused := decompress(body, "", isJSON, 1<<20)
		if refused != nil {
			return
		}
		var streams []pushed
		var err error
		if isJSON {
			streams, err = decodeJSON(raw)
		} else {
			streams, err = decodeProtobuf(raw)
		}
		if err != nil {
			return
		}
		labels, refused := parseAll(streams)
		if refused != nil {
			return
		}
		entries := 0
		for _, s := range streams {
			entries += len(s.entries)
		}
		h.mu.Lock()
		answer := h.Server.push("fake", "", streams, labels)
		h.mu.Unlock()
		if answer != nil && answer.status != 400 {
			return
		}
		n := h.stats.Stored + h.stats.Duplicates
		for reason, count := range h.stats.Discarded {
			if reason != "invalid_labels" { // counted under another reason too
				n += count
			}
		}
		if n != entries || h.stats.Stored != len(h.Entries("fake")) {
			t.Fatalf("%d entries, %+v", entries, h.stats)
		}
	})
}

// The server must not be what a measurement of a client measures.
func BenchmarkPush(b *testing.B) {
	for _, forget := range []bool{true, false} {
		b.Run(fmt.Sprint("forget=", forget), func(b *testing.B) {
			s := NewServer(Config{Limits: Plain, Forget: forget, Now: func() time.Time { return now }})
			defer s.Close()
			var entries []in
			for i := range 1000 {
				entries = append(entries, in{time.Duration(i), fmt.Sprintf("%0600d", i), []Label{{"level", "info"}, {"a", "b"}}})
			}
			raw := encodeStream(`{app="a"}`, entries...)
			body := snappy.Encode(nil, raw)
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if status := post(b, s, body); status != 204 {
					b.Fatal(status)
				}
			}
		})
	}
}
