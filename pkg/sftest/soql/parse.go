// Package soql reads and runs the queries of a simulated org: enough of
// Salesforce's query language to refuse what an org refuses, for the reasons
// that it gives.
package soql

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Error is a refusal, with Salesforce's error code.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func malformed(format string, args ...any) *Error {
	return &Error{"MALFORMED_QUERY", fmt.Sprintf(format, args...)}
}

// Query is a parsed statement.
type Query struct {
	Select  []Column
	From    string
	Where   Expr // nil: all
	GroupBy []string
	OrderBy []Order
	Limit   int // -1: none
	Offset  int
}

// Column is a selected field, FIELDS(...) or an aggregate.
type Column struct {
	Field string // as written; empty for COUNT()
	Func  string // "", COUNT, COUNT_DISTINCT, MIN, MAX, SUM, AVG, FIELDS
	Alias string
}

// Order is one term of ORDER BY.
type Order struct {
	Field     string
	Desc      bool
	NullsLast bool
}

// Expr is a condition.
type Expr interface{ isExpr() }

// And, Or and Not join conditions; Cond is a comparison.
type (
	And  []Expr
	Or   []Expr
	Not  struct{ Expr }
	Cond struct {
		Field  string
		Op     string // = != < <= > >= LIKE IN NOT IN
		Values []Value
	}
)

func (And) isExpr()  {}
func (Or) isExpr()   {}
func (Not) isExpr()  {}
func (Cond) isExpr() {}

// ValueKind is the kind of a literal.
type ValueKind int

// The kinds of literals.
const (
	Null ValueKind = iota
	String
	Number
	Boolean
	DateTime
	Date
	Relative // TODAY, LAST_N_DAYS:n
)

// Value is a literal.
type Value struct {
	Kind ValueKind
	Text string // of a String, or the name of a Relative
	Num  float64
	Bool bool
	Time time.Time
}

// Options are what an org may differ in.
type Options struct {
	// LenientDates takes a dateTime with +0000, which is what REST answers with
	// but no literal that is documented.
	LenientDates bool
}

// Parse reads a statement.
func Parse(text string, opt Options) (*Query, error) {
	p := &parser{lexer: lexer{text: text, lenient: opt.LenientDates}}
	if err := p.next(); err != nil {
		return nil, err
	}
	q, err := p.query()
	if err != nil {
		return nil, err
	}
	return q, nil
}

type parser struct {
	lexer
	tok token
}

func (p *parser) next() error {
	t, err := p.scan()
	p.tok = t
	return err
}

func (p *parser) unexpected() error {
	if p.tok.kind == tokEnd {
		return malformed("unexpected token: <EOF>")
	}
	return malformed("%sunexpected token: '%s'", p.where(p.tok.pos), p.tok.text)
}

// word takes the keyword w if it is next.
func (p *parser) word(w string) (bool, error) {
	if p.tok.kind != tokWord || !strings.EqualFold(p.tok.text, w) {
		return false, nil
	}
	return true, p.next()
}

func (p *parser) mustWord(w string) error {
	ok, err := p.word(w)
	if err == nil && !ok {
		err = p.unexpected()
	}
	return err
}

func (p *parser) punct(c string) (bool, error) {
	if p.tok.kind != tokPunct || p.tok.text != c {
		return false, nil
	}
	return true, p.next()
}

func (p *parser) mustPunct(c string) error {
	ok, err := p.punct(c)
	if err == nil && !ok {
		err = p.unexpected()
	}
	return err
}

func (p *parser) name() (string, error) {
	if p.tok.kind != tokWord || reserved[strings.ToUpper(p.tok.text)] {
		return "", p.unexpected()
	}
	text := p.tok.text
	return text, p.next()
}

var reserved = map[string]bool{"SELECT": true, "FROM": true, "WHERE": true, "AND": true, "OR": true, "NOT": true, "IN": true,
	"LIKE": true, "ORDER": true, "GROUP": true, "BY": true, "LIMIT": true, "OFFSET": true, "ASC": true, "DESC": true}

func (p *parser) query() (*Query, error) {
	q := &Query{Limit: -1}
	if err := p.mustWord("SELECT"); err != nil {
		return nil, err
	}
	for {
		c, err := p.column()
		if err != nil {
			return nil, err
		}
		q.Select = append(q.Select, c)
		if more, err := p.punct(","); err != nil || !more {
			if err != nil {
				return nil, err
			}
			break
		}
	}
	if err := p.mustWord("FROM"); err != nil {
		return nil, err
	}
	var err error
	if q.From, err = p.name(); err != nil {
		return nil, err
	}
	for _, clause := range []func(*Query) error{p.whereClause, p.groupClause, p.orderClause, p.limitClause} {
		if err := clause(q); err != nil {
			return nil, err
		}
	}
	if p.tok.kind != tokEnd {
		return nil, p.unexpected()
	}
	return q, nil
}

var functions = map[string]bool{"COUNT": true, "COUNT_DISTINCT": true, "MIN": true, "MAX": true, "SUM": true, "AVG": true, "FIELDS": true}

func (p *parser) column() (Column, error) {
	name, err := p.name()
	if err != nil {
		return Column{}, err
	}
	c := Column{Field: name}
	open, err := p.punct("(")
	if err != nil {
		return c, err
	}
	if open {
		c = Column{Func: strings.ToUpper(name)}
		if !functions[c.Func] {
			return c, malformed("unknown function: %s", name)
		}
		if p.tok.kind == tokWord {
			if c.Field, err = p.name(); err != nil {
				return c, err
			}
		}
		if err := p.mustPunct(")"); err != nil {
			return c, err
		}
	}
	if p.tok.kind == tokWord && !strings.EqualFold(p.tok.text, "FROM") && !reserved[strings.ToUpper(p.tok.text)] {
		c.Alias, err = p.name()
	}
	return c, err
}

func (p *parser) whereClause(q *Query) error {
	if ok, err := p.word("WHERE"); err != nil || !ok {
		return err
	}
	e, err := p.expr()
	q.Where = e
	return err
}

// expr reads conditions joined by one of AND and OR; both of them without
// parentheses is what SOQL refuses.
func (p *parser) expr() (Expr, error) {
	first, err := p.term()
	if err != nil {
		return nil, err
	}
	list, join := []Expr{first}, ""
	for p.tok.kind == tokWord {
		w := strings.ToUpper(p.tok.text)
		if w != "AND" && w != "OR" {
			break
		}
		if join != "" && w != join {
			return nil, p.unexpected()
		}
		join = w
		if err := p.next(); err != nil {
			return nil, err
		}
		e, err := p.term()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	switch join {
	case "AND":
		return And(list), nil
	case "OR":
		return Or(list), nil
	}
	return first, nil
}

func (p *parser) term() (Expr, error) {
	if ok, err := p.word("NOT"); err != nil {
		return nil, err
	} else if ok {
		e, err := p.term()
		return Not{e}, err
	}
	if ok, err := p.punct("("); err != nil {
		return nil, err
	} else if ok {
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		return e, p.mustPunct(")")
	}
	return p.cond()
}

func (p *parser) cond() (Expr, error) {
	field, err := p.name()
	if err != nil {
		return nil, err
	}
	c := Cond{Field: field}
	switch {
	case p.tok.kind == tokOp:
		c.Op = p.tok.text
		if c.Op == "<>" {
			c.Op = "!="
		}
		err = p.next()
	case p.tok.kind == tokWord:
		err = p.wordOp(&c)
	default:
		err = p.unexpected()
	}
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(c.Op, "IN") {
		c.Values, err = p.list()
		return c, err
	}
	v, err := p.value()
	c.Values = []Value{v}
	return c, err
}

func (p *parser) wordOp(c *Cond) error {
	op := strings.ToUpper(p.tok.text)
	switch op {
	case "LIKE", "IN":
		c.Op = op
		return p.next()
	case "NOT":
		if err := p.next(); err != nil {
			return err
		}
		c.Op = "NOT IN"
		return p.mustWord("IN")
	}
	return p.unexpected()
}

func (p *parser) list() ([]Value, error) {
	if err := p.mustPunct("("); err != nil {
		return nil, err
	}
	var out []Value
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		more, err := p.punct(",")
		if err != nil {
			return nil, err
		}
		if !more {
			return out, p.mustPunct(")")
		}
	}
}

func (p *parser) value() (Value, error) {
	t := p.tok
	switch t.kind {
	case tokValue:
		return t.value, p.next()
	case tokWord:
		w := strings.ToUpper(t.text)
		switch {
		case w == "NULL":
			return Value{}, p.next()
		case w == "TRUE" || w == "FALSE":
			return Value{Kind: Boolean, Bool: w == "TRUE"}, p.next()
		case w == "TODAY" || w == "YESTERDAY" || strings.HasPrefix(w, "LAST_N_DAYS:"):
			return Value{Kind: Relative, Text: w}, p.next()
		}
	}
	return Value{}, p.unexpected()
}

func (p *parser) groupClause(q *Query) error {
	if ok, err := p.word("GROUP"); err != nil || !ok {
		return err
	}
	if err := p.mustWord("BY"); err != nil {
		return err
	}
	for {
		f, err := p.name()
		if err != nil {
			return err
		}
		q.GroupBy = append(q.GroupBy, f)
		if more, err := p.punct(","); err != nil || !more {
			return err
		}
	}
}

func (p *parser) orderClause(q *Query) error {
	if ok, err := p.word("ORDER"); err != nil || !ok {
		return err
	}
	if err := p.mustWord("BY"); err != nil {
		return err
	}
	for {
		f, err := p.name()
		if err != nil {
			return err
		}
		o := Order{Field: f}
		if err := p.direction(&o); err != nil {
			return err
		}
		q.OrderBy = append(q.OrderBy, o)
		if more, err := p.punct(","); err != nil || !more {
			return err
		}
	}
}

func (p *parser) direction(o *Order) error {
	desc, err := p.word("DESC")
	if err == nil && !desc {
		_, err = p.word("ASC")
	}
	if err != nil {
		return err
	}
	o.Desc = desc
	if ok, err := p.word("NULLS"); err != nil || !ok {
		return err
	}
	if last, err := p.word("LAST"); err != nil || last {
		o.NullsLast = last
		return err
	}
	return p.mustWord("FIRST")
}

func (p *parser) limitClause(q *Query) error {
	for _, clause := range []struct {
		word string
		to   *int
	}{{"LIMIT", &q.Limit}, {"OFFSET", &q.Offset}} {
		ok, err := p.word(clause.word)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if p.tok.kind != tokValue || p.tok.value.Kind != Number {
			return p.unexpected()
		}
		n, err := strconv.Atoi(p.tok.text)
		if err != nil || n < 0 {
			return p.unexpected()
		}
		*clause.to = n
		if err := p.next(); err != nil {
			return err
		}
	}
	if q.Offset > 2000 {
		return &Error{"NUMBER_OUTSIDE_VALID_RANGE", "Maximum SOQL offset allowed is 2000"}
	}
	return nil
}
