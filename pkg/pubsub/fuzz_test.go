package pubsub

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/sysexits"
)

// A stored value is a position, or can be done without, or is a wrong
// configuration; an id is the same after it was stored again.
func FuzzPosition(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"org":"00D1","id":"AAAAAAAAAAE=","ts":"2026-07-01T10:00:00.123Z"}`, `{"v":1,"id":"AAAB"}`, `{"v":1,"id":""}`, `{"v":1,"id":"?"}`, `{"v":1,"org":"00D2","id":"AAAB"}`, `{"v":2}`, `{"v":0}`, `{"v":1e9}`, `{"v":"1"}`,
		`{"id":"AAAB"}`, `{"v":1,"id":7}`, `{`, ` AAAB `, "AA\nAB", "earliest", "latest", "-1", "-2", "", `{"v":1,"id":"AAAB","ts":"never"}`,
		strings.Repeat("7", 5000), `{"v":` + strings.Repeat("7", 5000) + `}`, `{"v":1,"id":` + strings.Repeat("7", 5000) + `}`, `{"v":1,"org":"` + strings.Repeat("7", 5000) + `"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text, "00D1")
		if err != nil {
			errtest.OneLine(t, err)
			if !feed.IsUseless(err) && sysexits.Of(err) != sysexits.Config {
				t.Fatalf("%q: status %v", text, sysexits.Of(err))
			}
			return
		}
		if (len(p.id) > 0) == (p.preset != "") {
			t.Fatalf("%q is %+v", text, p)
		}
		if len(p.id) == 0 {
			return
		}
		var stored string
		if err := json.Unmarshal(append(append([]byte{'"'}, newTokens("00D1").of(p.id, p.time)...), '"'), &stored); err != nil {
			t.Fatal(err)
		}
		again, err := parsePosition(stored, "00D1")
		if err != nil || !bytes.Equal(again.id, p.id) || again.time/1e6 != p.time/1e6 && p.time > 0 {
			t.Fatalf("%q is %+v, stored as %s %+v, %v", text, p, stored, again, err)
		}
	})
}
