package loki

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"sf2loki/pkg/loki/pushpb"
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
		var got struct {
			Streams []struct {
				Stream map[string]string
				Values [][]any
			}
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		var want pushpb.PushRequest
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(push, &want); err != nil {
			return // the oracle takes no text that is not UTF-8
		}
		if ours, err := proto.Marshal(&want); err != nil || !bytes.Equal(ours, push) {
			return // protobuf has other forms, which AppendPush never makes
		}
		if len(got.Streams) != len(want.Streams) {
			t.Fatalf("%s has not %d streams", out, len(want.Streams))
		}
		for i, stream := range want.Streams {
			if len(got.Streams[i].Values) != len(stream.Entries) {
				t.Fatalf("%s has not %d entries", out, len(stream.Entries))
			}
			for k, e := range stream.Entries {
				value := []any{strconv.FormatInt(e.Timestamp.GetSeconds()*1e9+int64(e.Timestamp.GetNanos()), 10), e.Line}
				pairs := map[string]any{}
				for _, p := range e.StructuredMetadata {
					pairs[p.Name] = p.Value
				}
				if len(pairs) > 0 {
					value = append(value, pairs)
				}
				if !reflect.DeepEqual(got.Streams[i].Values[k], value) {
					t.Fatalf("%q is not %q", got.Streams[i].Values[k], value)
				}
			}
		}
	})
}
