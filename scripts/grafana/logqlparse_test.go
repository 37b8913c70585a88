package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// parseLogQL checks a query against the part of LogQL that the dashboards use:
//
//	metric  = VECTOR [by (LABELS)] "(" [NUMBER ","] metric ")" | RANGE "(" [NUMBER ","] log "[" DURATION "]" ["offset" DURATION] ")" [by (LABELS)]
//	        | metric OPERATOR metric | NUMBER
//	log     = "{" MATCHER {"," MATCHER} "}" {STAGE}
func parseLogQL(expr string) error {
	tokens, err := scan(expr)
	if err != nil {
		return err
	}
	p := &logqlParser{tokens: tokens}
	if p.peek() == "{" {
		err = p.log()
	} else {
		err = p.metric()
	}
	if err == nil && p.at < len(p.tokens) {
		err = fmt.Errorf("%q is left over", strings.Join(p.tokens[p.at:], " "))
	}
	return err
}

var logqlToken = regexp.MustCompile("^(?:\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|\\|=|\\|~|=~|!~|!=|<=|>=|==|[{}()\\[\\],|=<>*/+-]|\\d+(?:\\.\\d+)?(?:ms|s|m|h|d)?|[A-Za-z_]\\w*)")

func scan(expr string) ([]string, error) {
	var tokens []string
	for {
		expr = strings.TrimLeft(expr, " \n\t")
		if expr == "" {
			return tokens, nil
		}
		tok := logqlToken.FindString(expr)
		if tok == "" {
			return nil, fmt.Errorf("what is %.10q", expr)
		}
		tokens, expr = append(tokens, tok), expr[len(tok):]
	}
}

type logqlParser struct {
	tokens []string
	at     int
}

func (p *logqlParser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

func (p *logqlParser) next() string {
	tok := p.peek()
	p.at++
	return tok
}

func (p *logqlParser) want(list ...string) error {
	for _, tok := range list {
		if got := p.next(); got != tok {
			return fmt.Errorf("%q where %q should be", got, tok)
		}
	}
	return nil
}

func isName(tok string) bool {
	return tok != "" && (tok[0] >= 'A' && tok[0] <= 'Z' || tok[0] >= 'a' && tok[0] <= 'z' || tok[0] == '_')
}
func isText(tok string) bool   { return tok != "" && (tok[0] == '"' || tok[0] == '`') }
func isNumber(tok string) bool { return tok != "" && tok[0] >= '0' && tok[0] <= '9' }

var (
	vectors    = []string{"sum", "min", "max", "avg", "count", "topk", "bottomk", "sort", "sort_desc"}
	ranges     = []string{"count_over_time", "rate", "bytes_over_time", "sum_over_time", "avg_over_time", "max_over_time", "min_over_time", "quantile_over_time"}
	comparison = []string{"=", "!=", "=~", "!~", "<", ">", "<=", ">=", "=="}
)

func (p *logqlParser) metric() error {
	if err := p.term(); err != nil {
		return err
	}
	for slices.Contains([]string{"/", "*", "+", "-", ">", "<", ">=", "<="}, p.peek()) {
		p.next()
		if err := p.term(); err != nil {
			return err
		}
	}
	return nil
}

func (p *logqlParser) term() error {
	name := p.next()
	switch {
	case isNumber(name):
		return nil
	case name == "(":
		if err := p.metric(); err != nil {
			return err
		}
		return p.want(")")
	case slices.Contains(vectors, name):
		if err := p.by(); err != nil {
			return err
		}
		if err := p.open(name == "topk" || name == "bottomk"); err != nil {
			return err
		}
		if err := p.metric(); err != nil {
			return err
		}
		if err := p.want(")"); err != nil {
			return err
		}
		return p.by()
	case slices.Contains(ranges, name):
		return p.overTime(name)
	}
	return fmt.Errorf("%q is no function", name)
}

// open reads the parenthesis and the parameter that some functions have.
func (p *logqlParser) open(parameter bool) error {
	if err := p.want("("); err != nil {
		return err
	}
	if !parameter {
		return nil
	}
	if n := p.next(); !isNumber(n) {
		return fmt.Errorf("%q where a number should be", n)
	}
	return p.want(",")
}

func (p *logqlParser) overTime(name string) error {
	if err := p.open(name == "quantile_over_time"); err != nil {
		return err
	}
	from := p.at
	if err := p.log(); err != nil {
		return err
	}
	unwraps := slices.Contains(p.tokens[from:p.at], "unwrap")
	if needs := !slices.Contains([]string{"count_over_time", "rate", "bytes_over_time"}, name); needs != unwraps {
		return fmt.Errorf("%s with unwrap: %v", name, unwraps)
	}
	if err := p.want("["); err != nil {
		return err
	}
	if d := p.next(); !isNumber(d) || strings.TrimLeft(d, "0123456789.") == "" {
		return fmt.Errorf("%q where a duration should be", d)
	}
	if err := p.want("]"); err != nil {
		return err
	}
	if p.peek() == "offset" {
		p.next()
		if d := p.next(); !isNumber(d) {
			return fmt.Errorf("%q where an offset should be", d)
		}
	}
	if err := p.want(")"); err != nil {
		return err
	}
	return p.by()
}

// by reads a grouping, if there is one.
func (p *logqlParser) by() error {
	if p.peek() != "by" && p.peek() != "without" {
		return nil
	}
	p.next()
	if err := p.want("("); err != nil {
		return err
	}
	for {
		if l := p.next(); !isName(l) {
			return fmt.Errorf("%q where a label should be", l)
		}
		switch tok := p.next(); tok {
		case ")":
			return nil
		case ",":
		default:
			return fmt.Errorf("%q in a grouping", tok)
		}
	}
}

// log reads a selector and the stages behind it.
func (p *logqlParser) log() error {
	if err := p.want("{"); err != nil {
		return err
	}
	sure := false // Loki wants a matcher that does not match the empty text
	for {
		name, op, value := p.next(), p.next(), p.next()
		if !isName(name) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, op) || !isText(value) {
			return fmt.Errorf("%q %q %q is no matcher", name, op, value)
		}
		sure = sure || op == "=" && len(value) > 2
		switch tok := p.next(); tok {
		case "}":
			if !sure {
				return fmt.Errorf("no matcher is sure of a value")
			}
			return p.stages()
		case ",":
		default:
			return fmt.Errorf("%q in a selector", tok)
		}
	}
}

func (p *logqlParser) stages() error {
	for {
		switch p.peek() {
		case "|=", "|~", "!=", "!~":
			p.next()
			if text := p.next(); !isText(text) {
				return fmt.Errorf("%q where a text should be", text)
			}
		case "|":
			p.next()
			if err := p.stage(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (p *logqlParser) stage() error {
	switch name := p.next(); name {
	case "json":
		for isName(p.peek()) {
			p.next()
			if err := p.want("="); err != nil {
				return err
			}
			if text := p.next(); !isText(text) {
				return fmt.Errorf("%q where a field should be", text)
			}
			if p.peek() != "," {
				return nil
			}
			p.next()
		}
		return nil
	case "line_format":
		if text := p.next(); !isText(text) || strings.Count(text, "{{") != strings.Count(text, "}}") {
			return fmt.Errorf("%q is no template", text)
		}
		return nil
	case "unwrap":
		if l := p.next(); !isName(l) {
			return fmt.Errorf("%q where a label should be", l)
		}
		return nil
	default:
		op, value := p.next(), p.next()
		if !isName(name) || !slices.Contains(comparison, op) || !isText(value) && !isNumber(value) {
			return fmt.Errorf("%q %q %q is no stage", name, op, value)
		}
		if strings.ContainsAny(op, "~") {
			if _, err := regexp.Compile(strings.Trim(value, "\"`")); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestParseLogQL(t *testing.T) {
	for _, good := range []string{
		`{a="b"}`,
		`{a="b", c=~".*|"} |= "x" | json X="Y", Z="z" | X != "1" | line_format "{{.X}}"`,
		`sum by (x) (count_over_time({a="b"} | json [5m]))`,
		`topk(20, sum by (a, b) (sum_over_time({a="b"} | json A="A" | unwrap A | __error__="" [6h])))`,
		`quantile_over_time(0.95, {a="b"} | json A="A" | unwrap A [1m]) by (a)`,
		`count_over_time({a="b"} [5m] offset 8h)`,
		`sum(rate({a="b"} [1m])) / sum(rate({a="c"} [1m])) > 10`,
	} {
		if err := parseLogQL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		``, `{}`, `{a=b}`, `{a="b"`, `{a=~".*"}`, `{a="b"} | `, `{a="b"} | jsn A="A"`, `{a="b"} | json A=A`, `{a="b"} | X =~ "("`,
		`{a="b"} | line_format "{{.X"`, `sum(count_over_time({a="b"}))`, `sum(count_over_time({a="b"} [5]))`, `sum by x (rate({a="b"}[5m]))`,
		`sum_over_time({a="b"} [5m])`, `count_over_time({a="b"} | unwrap A [5m])`, `topk(sum(rate({a="b"}[5m])))`, `summ(rate({a="b"}[5m]))`,
		`sum(rate({a="b"}[5m])`, `sum(rate({a="b"}[5m])))`, `sum by (a,) (rate({a="b"}[5m]))`, `{a="b"} §`,
	} {
		if err := parseLogQL(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
