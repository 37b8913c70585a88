package soql

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Type is the type of a field.
type Type int

// The types of fields, as far as comparing them differs.
const (
	Text Type = iota
	ID
	Num
	Bool
	Time
	Base64 // neither filtered nor sorted
)

// Field is a column of an object.
type Field struct {
	Name string
	Type Type
}

// Object is what a query needs to know of the object that it names.
type Object struct {
	Name   string
	Fields []Field
}

// Find gives the field of that name, whatever its case.
func (o *Object) Find(name string) (Field, error) {
	for _, f := range o.Fields {
		if strings.EqualFold(f.Name, name) {
			return f, nil
		}
	}
	return Field{}, &Error{"INVALID_FIELD", fmt.Sprintf("\nERROR at Row:1:Column:1\nNo such column '%s' on entity '%s'. If you are attempting to use a custom field, be sure to append the '__c' after the custom field name. Please reference your WSDL or the describe call for the appropriate names.", name, o.Name)}
}

// Row is a record; a missing field is null.
type Row map[string]any

// Result is the answer to a query.
type Result struct {
	Columns   []string // of the records, in the order of SELECT
	Rows      []Row
	Aggregate bool
	Count     int // of SELECT COUNT(), which has no rows
	CountOnly bool
}

// Run gives the rows that q selects.
func (q *Query) Run(obj *Object, rows []Row, now time.Time) (*Result, error) {
	r := &runner{q: q, obj: obj, now: now}
	if err := r.check(); err != nil {
		return nil, err
	}
	var hits []Row
	for _, row := range rows {
		if q.Where == nil || r.holds(q.Where, row) {
			hits = append(hits, row)
		}
	}
	if r.aggregate() {
		return r.group(hits)
	}
	r.sort(hits)
	hits = hits[min(q.Offset, len(hits)):]
	if q.Limit >= 0 {
		hits = hits[:min(q.Limit, len(hits))]
	}
	return &Result{Columns: r.columns, Rows: hits}, nil
}

type runner struct {
	q       *Query
	obj     *Object
	now     time.Time
	columns []string
}

func (r *runner) aggregate() bool {
	if len(r.q.GroupBy) > 0 {
		return true
	}
	return slices.ContainsFunc(r.q.Select, func(c Column) bool { return c.Func != "" && c.Func != "FIELDS" })
}

func (r *runner) check() error {
	for _, c := range r.q.Select {
		if err := r.checkColumn(c); err != nil {
			return err
		}
	}
	for _, g := range r.q.GroupBy {
		if _, err := r.obj.Find(g); err != nil {
			return err
		}
	}
	for i, o := range r.q.OrderBy {
		f, err := r.obj.Find(o.Field)
		if err != nil {
			return err
		}
		if f.Type == Base64 {
			return malformed("field '%s' can not be sorted in a query call", f.Name)
		}
		r.q.OrderBy[i].Field = f.Name
	}
	return r.checkExpr(r.q.Where)
}

func (r *runner) checkColumn(c Column) error {
	switch {
	case c.Func == "FIELDS":
		group := strings.ToUpper(c.Field)
		if group != "STANDARD" && (r.q.Limit < 0 || r.q.Limit > 200) {
			return malformed("The SOQL FIELDS function must have a LIMIT of at most 200")
		}
		for _, f := range r.obj.Fields {
			if custom := strings.HasSuffix(f.Name, "__c"); group == "ALL" || custom == (group == "CUSTOM") {
				r.columns = append(r.columns, f.Name)
			}
		}
		return nil
	case c.Func == "COUNT" && c.Field == "":
		return nil
	}
	f, err := r.obj.Find(c.Field)
	if err != nil {
		return err
	}
	r.columns = append(r.columns, f.Name)
	if len(r.q.GroupBy) > 0 && c.Func == "" && !slices.ContainsFunc(r.q.GroupBy, func(g string) bool { return strings.EqualFold(g, c.Field) }) {
		return malformed("Field must be grouped or aggregated: %s", c.Field)
	}
	return nil
}

func (r *runner) checkExpr(e Expr) error {
	switch e := e.(type) {
	case And:
		return r.checkAll(e)
	case Or:
		return r.checkAll(e)
	case Not:
		return r.checkExpr(e.Expr)
	case Cond:
		f, err := r.obj.Find(e.Field)
		if err != nil {
			return err
		}
		return checkCond(f, e)
	}
	return nil
}

func (r *runner) checkAll(list []Expr) error {
	for _, e := range list {
		if err := r.checkExpr(e); err != nil {
			return err
		}
	}
	return nil
}

func checkCond(f Field, c Cond) error {
	if f.Type == Base64 {
		return &Error{"INVALID_FIELD", fmt.Sprintf("field '%s' can not be filtered in a query call", f.Name)}
	}
	if c.Op == "LIKE" && f.Type != Text {
		return &Error{"INVALID_QUERY_FILTER_OPERATOR", "invalid operator"}
	}
	for _, v := range c.Values {
		ok := v.Kind == Null
		switch f.Type {
		case Text, ID:
			ok = ok || v.Kind == String
		case Num:
			ok = ok || v.Kind == Number
		case Bool:
			ok = ok || v.Kind == Boolean
		case Time:
			ok = ok || v.Kind == DateTime || v.Kind == Relative
			if v.Kind == String || v.Kind == Date {
				return &Error{"INVALID_FIELD", fmt.Sprintf("value of filter criterion for field '%s' must be of type dateTime and should not be enclosed in quotes", f.Name)}
			}
		}
		if !ok {
			return &Error{"INVALID_FIELD", fmt.Sprintf("value of filter criterion for field '%s' must be of another type", f.Name)}
		}
		if f.Type == ID && v.Kind == String && len(v.Text) != 15 && len(v.Text) != 18 {
			return &Error{"INVALID_QUERY_FILTER_OPERATOR", "invalid ID field: " + v.Text}
		}
	}
	return nil
}

func (r *runner) holds(e Expr, row Row) bool {
	switch e := e.(type) {
	case And:
		return !slices.ContainsFunc(e, func(x Expr) bool { return !r.holds(x, row) })
	case Or:
		return slices.ContainsFunc(e, func(x Expr) bool { return r.holds(x, row) })
	case Not:
		return !r.holds(e.Expr, row)
	case Cond:
		return r.cond(e, row)
	}
	return false
}

func (r *runner) cond(c Cond, row Row) bool {
	f, err := r.obj.Find(c.Field)
	if err != nil {
		return false
	}
	have := row[f.Name]
	any := slices.ContainsFunc(c.Values, func(v Value) bool { return r.compare(f, have, equalOp(c.Op), v) })
	if c.Op == "!=" || c.Op == "NOT IN" {
		return !any
	}
	return any
}

func equalOp(op string) string {
	switch op {
	case "IN", "NOT IN", "!=":
		return "="
	}
	return op
}

func (r *runner) compare(f Field, have any, op string, v Value) bool {
	if have == nil || v.Kind == Null {
		return op == "=" && have == nil && v.Kind == Null
	}
	if op == "LIKE" {
		return like(strings.ToLower(text(have)), strings.ToLower(v.Text))
	}
	if v.Kind == Relative {
		from, to := r.relative(v.Text)
		t, ok := have.(time.Time)
		if !ok {
			return false
		}
		switch op {
		case "=":
			return !t.Before(from) && t.Before(to)
		case "<":
			return t.Before(from)
		case ">=":
			return !t.Before(from)
		case ">":
			return !t.Before(to)
		}
		return t.Before(to)
	}
	n := order(f.Type, have, literal(v))
	switch op {
	case "=":
		return n == 0
	case "<":
		return n < 0
	case "<=":
		return n <= 0
	case ">":
		return n > 0
	}
	return n >= 0
}

func (r *runner) relative(name string) (from, to time.Time) {
	today := r.now.UTC().Truncate(24 * time.Hour)
	switch name {
	case "TODAY":
		return today, today.AddDate(0, 0, 1)
	case "YESTERDAY":
		return today.AddDate(0, 0, -1), today
	}
	var days int
	fmt.Sscanf(name, "LAST_N_DAYS:%d", &days)
	return today.AddDate(0, 0, -days), today.AddDate(0, 0, 1)
}

func literal(v Value) any {
	switch v.Kind {
	case Number:
		return v.Num
	case Boolean:
		return v.Bool
	case DateTime, Date:
		return v.Time
	}
	return v.Text
}

// order compares two values of a field, null lowest. Dates count to the
// millisecond, ids by their case, texts not.
func order(t Type, a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(boolInt(a != nil), boolInt(b != nil))
	}
	switch t {
	case Time:
		x, _ := a.(time.Time)
		y, _ := b.(time.Time)
		return cmp.Compare(x.UnixMilli(), y.UnixMilli())
	case Num:
		return cmp.Compare(number(a), number(b))
	case Bool:
		return cmp.Compare(boolInt(a == true), boolInt(b == true))
	case ID:
		return strings.Compare(id15(text(a)), id15(text(b)))
	}
	return strings.Compare(strings.ToLower(text(a)), strings.ToLower(text(b)))
}

func id15(id string) string { return id[:min(15, len(id))] }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func text(v any) string { return fmt.Sprint(v) }

func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// like matches % and _, and their escaped forms.
func like(s, pattern string) bool {
	if pattern == "" {
		return s == ""
	}
	switch {
	case pattern[0] == '%':
		for i := 0; i <= len(s); i++ {
			if like(s[i:], pattern[1:]) {
				return true
			}
		}
		return false
	case pattern[0] == '\\' && len(pattern) > 1:
		return s != "" && s[0] == pattern[1] && like(s[1:], pattern[2:])
	case s == "":
		return false
	}
	return (pattern[0] == '_' || pattern[0] == s[0]) && like(s[1:], pattern[1:])
}

// sort puts rows in the order that was asked for; without one, they stay as
// they were inserted.
func (r *runner) sort(rows []Row) {
	slices.SortStableFunc(rows, func(a, b Row) int {
		for _, o := range r.q.OrderBy {
			f, err := r.obj.Find(o.Field)
			if err != nil {
				return 0
			}
			x, y := a[f.Name], b[f.Name]
			if x == nil || y == nil {
				if n := order(f.Type, x, y); n != 0 {
					if o.NullsLast {
						n = -n
					}
					return n
				}
				continue
			}
			n := order(f.Type, x, y)
			if o.Desc {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return 0
	})
}

func (r *runner) group(rows []Row) (*Result, error) {
	q := r.q
	if len(q.GroupBy) == 0 && len(q.Select) == 1 && q.Select[0].Func == "COUNT" && q.Select[0].Field == "" {
		return &Result{CountOnly: true, Count: len(rows)}, nil
	}
	res := &Result{Aggregate: true}
	type bucket struct{ rows []Row }
	var keys []string
	groups := map[string]*bucket{}
	for _, row := range rows {
		var key []string
		for _, g := range q.GroupBy {
			f, _ := r.obj.Find(g)
			key = append(key, text(row[f.Name]))
		}
		k := strings.Join(key, "\x00")
		if groups[k] == nil {
			groups[k] = &bucket{}
			keys = append(keys, k)
		}
		groups[k].rows = append(groups[k].rows, row)
	}
	if len(q.GroupBy) == 0 && len(keys) == 0 {
		keys, groups[""] = []string{""}, &bucket{}
	}
	slices.Sort(keys)
	names := r.aggregateNames()
	res.Columns = names
	for _, k := range keys {
		out := Row{}
		for i, c := range q.Select {
			out[names[i]] = r.aggregateValue(c, groups[k].rows)
		}
		res.Rows = append(res.Rows, out)
	}
	if q.Limit >= 0 {
		res.Rows = res.Rows[:min(q.Limit, len(res.Rows))]
	}
	return res, nil
}

// aggregateNames are the names of a result's columns: aliases, fields, or
// expr0, expr1 for what has none.
func (r *runner) aggregateNames() []string {
	var names []string
	exprs := 0
	for _, c := range r.q.Select {
		switch {
		case c.Alias != "":
			names = append(names, c.Alias)
		case c.Func == "":
			f, _ := r.obj.Find(c.Field)
			names = append(names, f.Name)
		default:
			names = append(names, fmt.Sprintf("expr%d", exprs))
			exprs++
		}
	}
	return names
}

func (r *runner) aggregateValue(c Column, rows []Row) any {
	if c.Field == "" {
		return len(rows)
	}
	f, _ := r.obj.Find(c.Field)
	var values []any
	sum := 0.0
	for _, row := range rows {
		if v := row[f.Name]; v != nil {
			values = append(values, v)
			sum += number(v)
		}
	}
	if c.Func == "COUNT" {
		return len(values)
	}
	if c.Func == "COUNT_DISTINCT" {
		seen := map[string]bool{}
		for _, v := range values {
			seen[text(v)] = true
		}
		return len(seen)
	}
	if len(values) == 0 {
		return nil
	}
	slices.SortFunc(values, func(a, b any) int { return order(f.Type, a, b) })
	switch c.Func {
	case "MAX":
		return values[len(values)-1]
	case "SUM":
		return sum
	case "AVG":
		return sum / float64(len(values))
	}
	return values[0] // MIN, or the field that is grouped by
}

// Mentions tells whether a condition names one of the fields.
func Mentions(e Expr, fields ...string) bool {
	switch e := e.(type) {
	case And:
		return slices.ContainsFunc(e, func(x Expr) bool { return Mentions(x, fields...) })
	case Or:
		return slices.ContainsFunc(e, func(x Expr) bool { return Mentions(x, fields...) })
	case Not:
		return Mentions(e.Expr, fields...)
	case Cond:
		return slices.ContainsFunc(fields, func(f string) bool { return strings.EqualFold(f, e.Field) })
	}
	return false
}

// Conditions gives the comparisons of a condition, in the order of the text.
func Conditions(e Expr) []Cond {
	var out []Cond
	switch e := e.(type) {
	case And:
		for _, x := range e {
			out = append(out, Conditions(x)...)
		}
	case Or:
		for _, x := range e {
			out = append(out, Conditions(x)...)
		}
	case Not:
		return Conditions(e.Expr)
	case Cond:
		out = append(out, e)
	}
	return out
}
