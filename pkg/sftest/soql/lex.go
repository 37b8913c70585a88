package soql

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokWord
	tokPunct // ( ) ,
	tokOp
	tokValue
)

type token struct {
	kind  tokenKind
	text  string
	pos   int
	value Value
}

type lexer struct {
	text    string
	pos     int
	lenient bool
}

var (
	wordPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*(:[0-9]+)?`)
	datePattern = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?)?`)
	numPattern  = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?`)
	opPattern   = regexp.MustCompile(`^(<=|>=|<>|!=|=|<|>)`)
)

// where is the part of a message that points at a place, as Salesforce draws it.
func (l *lexer) where(pos int) string {
	from := max(pos-30, 0)
	to := min(pos+30, len(l.text))
	return fmt.Sprintf("\n%s\n%s^\nERROR at Row:1:Column:%d\n", l.text[from:to], strings.Repeat(" ", pos-from), pos+1)
}

func (l *lexer) scan() (token, error) {
	for l.pos < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.pos]) >= 0 {
		l.pos++
	}
	start := l.pos
	rest := l.text[start:]
	if rest == "" {
		return token{kind: tokEnd, pos: start}, nil
	}
	take := func(kind tokenKind, text string) (token, error) {
		l.pos += len(text)
		return token{kind: kind, text: text, pos: start}, nil
	}
	switch c := rest[0]; {
	case strings.IndexByte("(),", c) >= 0:
		return take(tokPunct, rest[:1])
	case c == '\'':
		return l.str()
	case opPattern.MatchString(rest):
		return take(tokOp, opPattern.FindString(rest))
	case datePattern.MatchString(rest):
		return l.date(datePattern.FindString(rest))
	case numPattern.MatchString(rest):
		t, _ := take(tokValue, numPattern.FindString(rest))
		n, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return t, malformed("%sfor input string: %q", l.where(start), t.text)
		}
		t.value = Value{Kind: Number, Num: n}
		return t, nil
	case wordPattern.MatchString(rest):
		return take(tokWord, wordPattern.FindString(rest))
	}
	return token{}, malformed("%sline 1:%d no viable alternative at character '%s'", l.where(start), start+1, firstRune(rest))
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// date reads a date or dateTime. A time without a zone, or with one that has no
// colon, leaves the reader in the middle, as it does in a real org.
func (l *lexer) date(text string) (token, error) {
	t := token{kind: tokValue, text: text, pos: l.pos}
	if len(text) == len("2006-01-02") {
		day, err := time.Parse("2006-01-02", text)
		if err != nil {
			return t, malformed("%sinvalid date: %s", l.where(t.pos), text)
		}
		t.value = Value{Kind: Date, Time: day}
		l.pos += len(text)
		return t, nil
	}
	layout := "2006-01-02T15:04:05.999999999Z07:00"
	if n := len(text); n > 5 && strings.ContainsAny(text[n-5:n-4], "+-") {
		if !l.lenient {
			at := t.pos + n - 5
			return t, malformed("%sline 1:%d no viable alternative at character '%s'", l.where(at), at+1, text[n-5:n-4])
		}
		layout = "2006-01-02T15:04:05.999999999Z0700"
	}
	when, err := time.Parse(layout, text)
	if err != nil {
		at := t.pos + len(text)
		return t, malformed("%sline 1:%d no viable alternative at character '%s'", l.where(at), at+1, firstRune(l.text[at:]))
	}
	t.value = Value{Kind: DateTime, Time: when.UTC()}
	l.pos += len(text)
	return t, nil
}

var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'f': '\f', '\'': '\'', '"': '"', '\\': '\\', '%': '%', '_': '_'}

func (l *lexer) str() (token, error) {
	t := token{kind: tokValue, pos: l.pos, value: Value{Kind: String}}
	var b strings.Builder
	for i := l.pos + 1; i < len(l.text); i++ {
		switch c := l.text[i]; c {
		case '\'':
			t.text, t.value.Text = l.text[l.pos:i+1], b.String()
			l.pos = i + 1
			return t, nil
		case '\\':
			i++
			if i == len(l.text) {
				continue
			}
			e, ok := escapes[l.text[i]]
			if !ok {
				return t, malformed("%sInvalid string literal. Illegal character sequence '\\%c' in string literal.", l.where(i), l.text[i])
			}
			if e == '%' || e == '_' {
				b.WriteByte('\\') // LIKE takes it for a literal
			}
			b.WriteByte(e)
		case '\n', '\r':
			return t, malformed("%sline breaks not allowed in string literals", l.where(i))
		default:
			b.WriteByte(c)
		}
	}
	return t, malformed("%sunterminated string literal", l.where(l.pos))
}
