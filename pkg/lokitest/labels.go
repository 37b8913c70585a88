package lokitest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func sortLabels(labels []Label) {
	slices.SortStableFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
}

// labelString prints labels as Loki names a stream.
func labelString(labels []Label) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, l := range labels {
		if i > 0 {
			b.WriteString(", ")
		}
		if isLabelName(l.Name) {
			b.WriteString(l.Name)
		} else {
			b.WriteString(strconv.Quote(l.Name))
		}
		b.WriteByte('=')
		b.WriteString(strconv.Quote(l.Value))
	}
	b.WriteByte('}')
	return b.String()
}

func isLabelName(s string) bool {
	for i, c := range s {
		if !isLetter(c) && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func isLetter(c rune) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// parseLabels parses the text of a stream's labels, with the errors of the
// parser that Loki has from Prometheus. Labels without a value are dropped, and
// the rest sorted.
func parseLabels(s string) ([]Label, error) {
	p := labelParser{s: s}
	labels, err := p.parse()
	if err != nil {
		return nil, err
	}
	labels = slices.DeleteFunc(labels, func(l Label) bool { return l.Value == "" })
	sortLabels(labels)
	return labels, nil
}

type labelParser struct {
	s string
	p int
}

func (p *labelParser) fail(at int, format string, args ...any) error {
	return fmt.Errorf("1:%d: parse error: %s", at+1, fmt.Sprintf(format, args...))
}

func (p *labelParser) parse() ([]Label, error) {
	var labels []Label
	p.blank()
	if name := p.identifier(); name != "" {
		labels = append(labels, Label{"__name__", name})
		p.blank()
	}
	if p.p == len(p.s) {
		return labels, nil
	}
	if p.s[p.p] != '{' {
		at := p.p
		if name := p.identifier(); name != "" {
			return nil, p.fail(at, "unexpected identifier %q", name)
		}
		return nil, p.fail(at, "unexpected character: %q", p.rune())
	}
	p.p++
	for {
		p.blank()
		if p.accept('}') {
			break
		}
		l, err := p.pair()
		if err != nil {
			return nil, err
		}
		labels = append(labels, l)
		p.blank()
		if p.accept(',') {
			continue
		}
		if p.accept('}') {
			break
		}
		return nil, p.unexpected(`"," or "}"`)
	}
	if p.blank(); p.p < len(p.s) {
		return nil, p.fail(p.p, "unexpected %q after the labels", p.s[p.p:])
	}
	return labels, nil
}

func (p *labelParser) pair() (l Label, err error) {
	switch {
	case p.p == len(p.s):
		return l, p.fail(p.p, "unexpected end of input inside braces")
	case p.s[p.p] == '"':
		if l.Name, err = p.quoted(); err != nil {
			return l, err
		}
	default:
		if l.Name = p.identifier(); l.Name == "" {
			return l, p.fail(p.p, "unexpected character inside braces: %q", p.rune())
		}
	}
	p.blank()
	if !p.accept('=') {
		if p.p < len(p.s) && !strings.ContainsRune("},\"", rune(p.s[p.p])) && !isLetter(p.rune()) {
			return l, p.fail(p.p, "unexpected character inside braces: %q", p.rune())
		}
		return l, p.unexpected(`"="`)
	}
	p.blank()
	if p.p == len(p.s) || !strings.ContainsRune("\"'`", rune(p.s[p.p])) {
		return l, p.unexpected("string")
	}
	l.Value, err = p.quoted()
	return l, err
}

func (p *labelParser) unexpected(want string) error {
	at := p.p
	if at == len(p.s) {
		return p.fail(at, "unexpected end of input inside braces")
	}
	if name := p.identifier(); name != "" {
		return p.fail(at, "unexpected identifier %q in label set, expected %s", name, want)
	}
	return p.fail(at, "unexpected %q in label set, expected %s", string(p.rune()), want)
}

// quoted reads a string in any of Go's quotes, or in single ones.
func (p *labelParser) quoted() (string, error) {
	start, quote := p.p, p.s[p.p]
	for p.p++; ; {
		if p.p >= len(p.s) {
			return "", p.fail(start, "unterminated quoted string")
		}
		r, size := utf8.DecodeRuneInString(p.s[p.p:])
		switch {
		case r == utf8.RuneError && size == 1:
			return "", p.fail(start, "invalid UTF-8 rune")
		case r == '\n' && quote != '`':
			return "", p.fail(start, "unterminated quoted string")
		case r == '\\' && quote != '`':
			size++
		case r == rune(quote):
			p.p++
			return p.unquote(start, p.s[start:p.p])
		}
		p.p += size
	}
}

func (p *labelParser) unquote(start int, quoted string) (string, error) {
	if quoted[0] == '\'' {
		inner := strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\'`, `'`), `"`, `\"`)
		quoted = `"` + inner + `"`
	}
	s, err := strconv.Unquote(quoted)
	if err != nil {
		return "", p.fail(start, "error unquoting string %q: %v", quoted, err)
	}
	return s, nil
}

func (p *labelParser) identifier() string {
	start := p.p
	for p.p < len(p.s) && (isLetter(rune(p.s[p.p])) || p.p > start && '0' <= p.s[p.p] && p.s[p.p] <= '9') {
		p.p++
	}
	return p.s[start:p.p]
}

func (p *labelParser) accept(c byte) bool {
	if p.p < len(p.s) && p.s[p.p] == c {
		p.p++
		return true
	}
	return false
}

func (p *labelParser) blank() {
	for p.p < len(p.s) && strings.ContainsRune(" \t\n\r", rune(p.s[p.p])) {
		p.p++
	}
}

func (p *labelParser) rune() rune {
	r, _ := utf8.DecodeRuneInString(p.s[p.p:])
	return r
}
