package loki

import (
	"encoding/json"
	"testing"
)

func TestAppendJSON(t *testing.T) {
	labels := AppendLabels(nil, pairs("b", "q\"\\\n ü\x00", "a", "x"))
	entries := AppendEntry(nil, 1782936000000000000, []byte("li\"ne\nü<>&"), nil)
	entries = AppendEntry(entries, -1, nil, pairs("z", "", "level", "info"))
	got, err := AppendJSON([]byte("> "), AppendPush(nil, labels, [][]byte{entries}))
	want := `> {"streams":[{"stream":{"a":"x","b":"q\"\\\n ü\u0000"},"values":[` +
		`["1782936000000000000","li\"ne\nü<>&"],["-1","",{"level":"info","z":""}]]}]}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	var check any
	if err := json.Unmarshal(got[2:], &check); err != nil {
		t.Error(err)
	}
}

func TestAppendJSONOfOtherMessages(t *testing.T) {
	for name, push := range map[string][]byte{
		"garbage":         []byte("garbage"),
		"cut":             AppendPush(nil, []byte(`{a="b"}`), [][]byte{AppendEntry(nil, 1, []byte("x"), nil)})[:10],
		"no labels":       AppendPush(nil, nil, [][]byte{AppendEntry(nil, 1, []byte("x"), nil)}),
		"labels no set":   AppendPush(nil, []byte(`a="b"`), nil),
		"labels no quote": AppendPush(nil, []byte(`{a=b}`), nil),
		"labels no comma": AppendPush(nil, []byte(`{a="b"c="d"}`), nil),
		"labels no sign":  AppendPush(nil, []byte(`{a}`), nil),
		"bad time":        AppendPush(nil, []byte(`{a="b"}`), [][]byte{{tagEntries, 4, tagTime, 2, 0x18, 1}}),
	} {
		if got, err := AppendJSON(nil, push); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add(AppendPush(nil, []byte(`{a="b"}`), [][]byte{AppendEntry(nil, 1, []byte("x"), pairs("c", "d"))}))
	f.Add([]byte{tagStreams, 0})
	f.Fuzz(func(t *testing.T, push []byte) {
		out, err := AppendJSON(nil, push)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("no JSON: %s", out)
		}
	})
}
