package checkpoint

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/sysexits"
)

// A ledger is one by its last whole line; what is none stays as it is.
func FuzzLedger(f *testing.F) {
	for _, s := range []string{
		"", `{"v":1,"account":{}}` + "\n", `{"v":1}` + "\n" + `{"v":1,"acc`, `{"v":2}` + "\n", `{"v":0}` + "\n", `{"v":"1"}` + "\n", "\n", "torn", "{}\n", "[]\n", "\x00\n",
		`{"v":1}{"v":1}` + "\n", `{"v":2}` + "\n" + `{"v":1}` + "\r\n", `{"v":` + strings.Repeat("7", 5000) + "}\n", `{"v":1}` + "\n" + strings.Repeat("x", 70<<10),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		whole := data[:bytes.LastIndexByte(data, '\n')+1]
		last := whole[bytes.LastIndexByte(bytes.TrimSuffix(whole, []byte("\n")), '\n')+1:]
		var members map[string]json.RawMessage
		var version int64
		valid := json.Unmarshal(last, &members) == nil && json.Unmarshal(members["v"], &version) == nil && version == LedgerVersion
		l, err := OpenLedger(path, time.Now)
		if err != nil {
			errtest.OneLine(t, err)
			kept, _ := os.ReadFile(path)
			if valid || len(whole) == 0 || sysexits.Of(err) != sysexits.Config || !bytes.Equal(kept, data) {
				t.Fatalf("%.200q: %v", data, err)
			}
			return
		}
		defer l.Close()
		if !valid && len(whole) > 0 && bytes.Count(bytes.ToLower(last), []byte(`"v"`)) < 2 && members["v"] != nil {
			t.Fatalf("%.200q is a ledger", data)
		}
		if end, err := l.whole(int64(len(data))); err != nil || end != int64(len(whole)) {
			t.Fatalf("%.200q: %d bytes are whole, not %d, %v", data, len(whole), end, err)
		}
	})
}

// A document is what encoding/json reads, unless a name is there twice or a
// value is no string, and the same after it was written again.
func FuzzParseDocument(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":"b"}`, `{"a":"b","a":"c"}`, `{"\ud800":"\ud800\udc00"}`, `[`, `{"a":{"b":"c"}}`, `{"a":"b"}x`, `{"a":"b"`, `{"a":7}`, ` `, "\xff", `null`, `"x"`, `{"a" "b"}`,
		`{"__fence_epoch__":"7","__fence_lease__":"{\"lease\":\"l\"}","__ts__:a":"2026-07-01T20:00:00Z","__moved__":"s3://b/k"}`, `{"__fence_epoch__":"-1"}`,
		`{"a":` + strings.Repeat("7", 5000) + `}`, `{"` + strings.Repeat("k", 5000) + `":7}`, `{"__fence_epoch__":"` + strings.Repeat("7", 5000) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]any
		wantErr := json.Unmarshal(data, &want)
		doc, err := ParseDocument(data)
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		n := 0
		for key := range doc.All() {
			n++
			if got, ok := doc.Get(key); !ok || want[key] != got {
				t.Fatalf("%q: %q is %q, encoding/json says %q", data, key, got, want[key])
			}
			doc.RecordTime(key)
		}
		if wantErr != nil || n != doc.Len() || n != len(want) {
			t.Fatalf("%q: %d members of %d, Len is %d, %v", data, n, len(want), doc.Len(), wantErr)
		}
		again, err := ParseDocument(doc.Bytes())
		if err != nil || !again.Equal(doc) {
			t.Fatalf("%q: written as %q, read again: %v", data, doc.Bytes(), err)
		}
		if epoch, err := doc.FenceEpoch(); err != nil {
			errtest.OneLine(t, err)
		} else if again.SetFenceEpoch(epoch); again.values[fenceKey] == "" {
			t.Fatal("no epoch is kept")
		}
		doc.Leader()
		doc.MovedTo()
		doc.advance()
	})
}
