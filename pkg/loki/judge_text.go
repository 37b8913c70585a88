package loki

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sf2loki/pkg/record"
)

// body is an answer's body made ready for matching.
type body struct {
	text    string // label sets replaced by {}, white space around it removed
	html    bool
	json    bool // the body is JSON; text is the message in it, if it has one
	binary  bool // not UTF-8, or of a type that is no text
	cut     bool // more was sent than was kept
	sharded bool // a label set held __stream_shard__
}

func newBody(a Answer) body {
	raw := bytes.TrimSpace(a.Body)
	kind, _, _ := strings.Cut(strings.ToLower(a.ContentType), ";")
	kind = strings.TrimSpace(kind)
	b := body{cut: len(a.Body) >= MaxBody}
	b.html = strings.Contains(kind, "html") || bytes.HasPrefix(raw, []byte("<"))
	if b.html || len(raw) == 0 {
		return b
	}
	if raw[0] == '{' || raw[0] == '[' {
		raw, b.json = jsonMessage(raw), true // no text of Loki's own begins so
	}
	b.binary = !b.json && (bytes.IndexByte(raw, 0) >= 0 ||
		kind != "" && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "json"))
	b.text, b.sharded = withoutLabelSets(string(raw))
	return b
}

// jsonMessage is the text that a gateway wrapped in a JSON object.
func jsonMessage(raw []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	for _, name := range []string{"message", "error", "msg", "detail"} {
		var text string
		if json.Unmarshal(fields[name], &text) == nil && text != "" {
			return []byte(strings.TrimSpace(text))
		}
	}
	return raw
}

// bare is the text without what gRPC puts before an error that it carried.
func (b *body) bare() string {
	text := b.text
	for strings.HasPrefix(text, "rpc error: code = ") {
		_, desc, found := strings.Cut(text, " desc = ")
		if !found {
			return text
		}
		text = desc
	}
	return text
}

// cleanDetail makes the server's words fit for a dead letter.
func cleanDetail(b []byte) string {
	if len(b) > 4*record.MaxDetail {
		b = b[:4*record.MaxDetail]
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
	for _, mark := range excerptMarks {
		text, _, _ = strings.Cut(text, mark)
	}
	return cutText(text, record.MaxDetail)
}

// excerptMarks stand before what a JSON decoder quotes of a request's lines.
var excerptMarks = []string{", error found in #", "; unparsed tail: "}

// cutText cuts valid UTF-8 to at most max bytes.
func cutText(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// withoutLabelSets replaces every label set, {a="b", c="d"}, by {}, so that
// nothing a label value holds can look like one of Loki's texts.
func withoutLabelSets(s string) (out string, sharded bool) {
	if !strings.Contains(s, "{") {
		return s, false
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '{')
		if i < 0 {
			b.WriteString(s)
			return b.String(), sharded
		}
		n, shard := labelSetSize(s[i:])
		if n == 0 {
			b.WriteString(s[:i+1])
			s = s[i+1:]
			continue
		}
		sharded = sharded || shard
		b.WriteString(s[:i])
		b.WriteString("{}")
		s = s[i+n:]
	}
}

const shardLabel = "__stream_shard__"

// labelSetSize is the length of the label set that s begins with; 0 if it begins
// with none.
func labelSetSize(s string) (n int, sharded bool) {
	i := 1
	for i < len(s) && s[i] != '}' {
		eq := strings.IndexByte(s[i:], '=')
		if eq < 0 {
			return 0, false
		}
		name := s[i : i+eq]
		if strings.ContainsAny(name, "{} \"'\n") {
			return 0, false
		}
		sharded = sharded || name == shardLabel
		i += eq + 1
		quoted, err := strconv.QuotedPrefix(s[i:])
		if err != nil || quoted[0] != '"' {
			return 0, false
		}
		i += len(quoted)
		i += len(s[i:]) - len(strings.TrimPrefix(strings.TrimPrefix(s[i:], ","), " "))
	}
	if i >= len(s) {
		return 0, false
	}
	return i + 1, sharded
}

// numberAfter is the number that stands right after mark; 0 if there is none.
func numberAfter(s, mark string) int64 {
	_, s, found := strings.Cut(s, mark)
	if !found {
		return 0
	}
	end := 0
	for end < len(s) && isDigit(s[end]) {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// sizeAfter is the size as Loki writes it after mark, 1KB or 1.5MB, in bytes;
// its units are powers of 1024.
func sizeAfter(s, mark string) int64 {
	_, s, found := strings.Cut(s, mark)
	if !found {
		return 0
	}
	end := 0
	for end < len(s) && (isDigit(s[end]) || s[end] == '.') {
		end++
	}
	n, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0
	}
	for i, unit := range []string{"KB", "MB", "GB", "TB"} {
		if strings.HasPrefix(s[end:], unit) {
			n *= float64(int64(1) << (10 * (i + 1)))
		}
	}
	if n >= 1<<62 {
		return 0
	}
	return int64(n)
}

// timeAfter is the time, as RFC 3339 has it, that stands right after mark, in
// nanoseconds.
func timeAfter(s, mark string) (int64, bool) {
	_, s, found := strings.Cut(s, mark)
	if !found {
		return 0, false
	}
	if i := strings.IndexAny(s, ", '\n"); i >= 0 {
		s = s[:i]
	}
	return parseTime(s, time.RFC3339)
}

func parseTime(s, layout string) (int64, bool) {
	t, err := time.Parse(layout, strings.TrimSpace(s))
	if err != nil || t.Year() < 1678 || t.Year() > 2261 {
		return 0, false
	}
	return t.UnixNano(), true
}
