package loki

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"sf2loki/pkg/loki/pushpb"
	"sf2loki/pkg/record"
)

// generated is the request as generated code encodes it.
func generated(t testing.TB, labels string, ts int64, line string, metadata []record.Pair) []byte {
	t.Helper()
	entry := &pushpb.Entry{Timestamp: timestamppb.New(time.Unix(0, ts)), Line: line}
	for _, p := range metadata {
		entry.StructuredMetadata = append(entry.StructuredMetadata,
			&pushpb.LabelPair{Name: string(p.Name), Value: string(p.Value)})
	}
	out, err := proto.Marshal(&pushpb.PushRequest{Streams: []*pushpb.Stream{{Labels: labels, Entries: []*pushpb.Entry{entry}}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAppendPushMatchesGeneratedCode(t *testing.T) {
	for _, ts := range []int64{0, 1, -1, 999999999, 1e9, -1e9, 1782936000123456789, math.MaxInt64, math.MinInt64} {
		for _, n := range []int{0, 1, 127, 128, 20000, 300000} {
			line := strings.Repeat("x", n)
			for _, md := range [][]record.Pair{nil, pairs("a", ""), pairs("level", "info", "user", strings.Repeat("u", n))} {
				entry := AppendEntry(nil, ts, []byte(line), md)
				got := AppendPush(nil, []byte(`{a="b"}`), [][]byte{entry})
				if want := generated(t, `{a="b"}`, ts, line, md); !bytes.Equal(got, want) {
					t.Fatalf("ts %d, line of %d, %d pairs: differs from generated code", ts, n, len(md))
				}
				if size := PushSize([]byte(`{a="b"}`), [][]byte{entry}); size != len(got) {
					t.Fatalf("PushSize is %d of %d", size, len(got))
				}
			}
		}
	}
}

// Entries that lie side by side in one buffer are the same as entries apart.
func TestAppendPushJoinsEntries(t *testing.T) {
	one := AppendEntry(nil, 1, []byte("one"), nil)
	two := AppendEntry(nil, 2, []byte("two"), pairs("a", "b"))
	both := AppendEntry(slices.Clone(one), 2, []byte("two"), pairs("a", "b"))
	labels := []byte(`{a="b"}`)
	apart := AppendPush(nil, labels, [][]byte{one, two})
	if joined := AppendPush(nil, labels, [][]byte{both}); !bytes.Equal(apart, joined) {
		t.Error("a joined run differs")
	}
	var req pushpb.PushRequest
	if err := proto.Unmarshal(apart, &req); err != nil {
		t.Fatal(err)
	}
	if e := req.Streams[0].Entries; len(e) != 2 || e[0].Line != "one" || e[1].Line != "two" || e[1].Timestamp.Nanos != 2 {
		t.Errorf("%v", e)
	}
	if empty := AppendPush([]byte("x"), nil, nil); string(empty) != "x\x0a\x00" {
		t.Errorf("%q", empty)
	}
}

func TestAppendEntryIgnoresKeyOrder(t *testing.T) {
	sorted := pairs("a", "1", "b", "2", "b", "3", "c", "4")
	mixed := pairs("c", "4", "b", "2", "a", "1", "b", "3")
	want, before := AppendEntry(nil, 7, []byte("x"), sorted), slices.Clone(mixed)
	if got := AppendEntry(nil, 7, []byte("x"), mixed); !bytes.Equal(got, want) {
		t.Error("the order of the metadata shows")
	}
	if !slices.EqualFunc(mixed, before, func(a, b record.Pair) bool { return bytes.Equal(a.Name, b.Name) }) {
		t.Error("the caller's pairs were moved")
	}
	many := numbered(60) // n0, n1, n10: not in byte order
	var req pushpb.PushRequest
	if err := proto.Unmarshal(AppendPush(nil, nil, [][]byte{AppendEntry(nil, 0, nil, many)}), &req); err != nil {
		t.Fatal(err)
	}
	got := req.Streams[0].Entries[0].StructuredMetadata
	if len(got) != 60 || !slices.IsSortedFunc(got, func(a, b *pushpb.LabelPair) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d pairs, or not in order", len(got))
	}
}

func TestAppendLabels(t *testing.T) {
	for _, tc := range []struct {
		labels []record.Pair
		want   string
	}{
		{nil, `{}`},
		{pairs("a", "b"), `{a="b"}`},
		{pairs("source", "elf", "event_type", "Login", "a", "x"), `{a="x",event_type="Login",source="elf"}`},
		{pairs("a", "x", "b", ""), `{a="x"}`},
		{pairs("a", "", "b", "y"), `{b="y"}`},
		{pairs("a", "q\"b\\s\nn\rr\tt\x00\x1f\x7f ü 日"), `{a="q\"b\\s\nn\rr\tt\x00\x1f\x7f ü 日"}`},
	} {
		if got := AppendLabels(nil, tc.labels); string(got) != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// parseLabels reads a label set as strictly as Prometheus' parser does: names
// of the classic syntax, one comma between labels, quoted strings without raw
// line feeds, U+FFFD or invalid UTF-8.
func parseLabels(s string) ([]record.Pair, error) {
	if len(s) < 2 || s[0] != '{' || s[len(s)-1] != '}' {
		return nil, fmt.Errorf("no braces")
	}
	var list []record.Pair
	rest := s[1 : len(s)-1]
	for rest != "" {
		if len(list) > 0 {
			if rest[0] != ',' {
				return nil, fmt.Errorf("no comma before %q", rest)
			}
			rest = rest[1:]
		}
		name, after, found := strings.Cut(rest, `="`)
		if !found || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" || isDigit(name[0]) {
			return nil, fmt.Errorf("name %q", name)
		}
		end := 0
		for end < len(after) && after[end] != '"' {
			if after[end] == '\\' {
				end++
			}
			if after[end] == '\n' {
				return nil, fmt.Errorf("raw line feed")
			}
			end++
		}
		if end >= len(after) {
			return nil, fmt.Errorf("unterminated")
		}
		if strings.ContainsRune(after[:end], utf8.RuneError) || !utf8.ValidString(after[:end]) {
			return nil, fmt.Errorf("invalid UTF-8 rune")
		}
		value, err := strconv.Unquote(`"` + after[:end] + `"`)
		if err != nil {
			return nil, err
		}
		list = append(list, record.Pair{Name: []byte(name), Value: []byte(value)})
		rest = after[end+1:]
	}
	return list, nil
}

// What the checks let pass, a strict parser reads back as it was.
func FuzzLabels(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("b", "\"\\\n\x00", "a", "\uFFFD")
	f.Add("b-", "x", "a", "\xff")
	f.Add("b", "\"} ,a=", "a", "")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		labels := pairs(n1, v1, n2, v2)
		var l Limits
		problem := l.CheckLabels(labels)
		text := string(AppendLabels(nil, labels))
		back, err := parseLabels(text)
		if problem != nil {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := slices.DeleteFunc(slices.Clone(labels), func(p record.Pair) bool { return len(p.Value) == 0 })
		slices.SortFunc(want, comparePairs)
		same := func(a, b record.Pair) bool { return bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Value, b.Value) }
		if !slices.EqualFunc(back, want, same) {
			t.Fatalf("%s: %q, want %q", text, back, want)
		}
		if n, _ := labelSetSize(text); n != len(text) {
			t.Fatalf("%s: the judge sees %d of %d bytes as the label set", text, n, len(text))
		}
	})
}

func FuzzAppendEntry(f *testing.F) {
	f.Add(int64(1782936000123456789), "line", "level", "info")
	f.Add(int64(-1), "", "", "")
	f.Fuzz(func(t *testing.T, ts int64, line, name, value string) {
		if !utf8.ValidString(line) || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return // the oracle refuses it; the codec lets nothing of it through
		}
		md := pairs(name, value)
		got := AppendPush(nil, []byte(`{a="b"}`), [][]byte{AppendEntry(nil, ts, []byte(line), md)})
		if want := generated(t, `{a="b"}`, ts, line, md); !bytes.Equal(got, want) {
			t.Fatal("differs from generated code")
		}
	})
}

func TestEncodeAllocatesNothing(t *testing.T) {
	buf, push := make([]byte, 0, 4096), make([]byte, 0, 8192)
	labels := pairs("source", "eventlogfile", "event_type", "Login", "event_hour", "2026-07-01T17")
	metadata := pairs("level", "info", "USER_ID", "005", "b", "x")
	line := bytes.Repeat([]byte("x"), 600)
	entries := make([][]byte, 1)
	if n := testing.AllocsPerRun(100, func() {
		text := AppendLabels(buf[:0], labels)
		entries[0] = AppendEntry(text[len(text):], 1782936000123456789, line, metadata)
		push = AppendPush(push[:0], text, entries)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Any snappy decoder reads what is compressed in pieces, and no buffer grows
// twice, however badly the data compresses.
func TestSnappyInPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 2*snappyPiece+1)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for _, data := range [][]byte{noise, bytes.Repeat([]byte("a line, "), len(noise)/8+1)} {
		for _, n := range []int{0, 1, snappyPiece - 1, snappyPiece, snappyPiece + 1, len(noise)} {
			packed := appendSnappy(nil, data[:n])
			raw, err := snappy.Decode(nil, packed)
			if err != nil || !bytes.Equal(raw, data[:n]) {
				t.Errorf("%d bytes come back as %d: %v", n, len(raw), err)
			}
			if allocs := testing.AllocsPerRun(5, func() { packed = appendSnappy(packed[:0], data[:n]) }); allocs != 0 {
				t.Errorf("%d bytes: %v allocations", n, allocs)
			}
		}
	}
}
