package sobject

import (
	"strconv"
	"strings"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
)

// cursor is a place in the order of (time, Id): behind the row of that id, or,
// without one, before all rows of that time.
type cursor struct {
	time int64
	id   string
}

// query is one question for rows.
type query struct {
	sch     *schema
	from    cursor
	before  int64 // times are less than this
	through int64 // if not 0: times are not greater than this, in place of before
	limit   int

	// Of a Big Object: the rows of one moment whose EventIdentifier lies
	// between; empty bounds nothing.
	moment       bool
	above, under string
}

// soql writes the query. Filter and order are on the same fields. A Big Object
// takes no other order than the newest first, and conditions on nothing but
// the time and then the EventIdentifier.
func (q *query) soql() string {
	var b strings.Builder
	b.WriteString("SELECT " + q.sch.inUse().list + " FROM " + q.sch.name + " WHERE " + q.conditions())
	if q.sch.big {
		b.WriteString(" ORDER BY " + q.sch.field + " DESC")
	} else {
		b.WriteString(" ORDER BY " + q.sch.field + " ASC, Id ASC")
	}
	b.WriteString(" LIMIT " + strconv.Itoa(q.rows()))
	return b.String()
}

// rows is how many rows the query asks for at most.
func (q *query) rows() int { return min(q.limit, q.sch.inUse().limit) }

// counting is the query for how many rows there are.
func (q *query) counting() string {
	return "SELECT COUNT(Id) n FROM " + q.sch.name + " WHERE " + q.conditions()
}

func (q *query) conditions() string {
	var b strings.Builder
	f := q.sch.field
	at := feed.DateTime(q.from.time)
	switch {
	case q.moment:
		b.WriteString(f + " = " + at)
		if q.above != "" {
			b.WriteString(" AND EventIdentifier > " + salesforce.Quote(q.above))
		}
		if q.under != "" {
			b.WriteString(" AND EventIdentifier < " + salesforce.Quote(q.under))
		}
	case q.from.id != "" && !q.sch.big:
		b.WriteString("(" + f + " > " + at + " OR (" + f + " = " + at + " AND Id > " + salesforce.Quote(q.from.id) + "))")
	default:
		b.WriteString(f + " >= " + at)
	}
	switch {
	case q.moment:
	case q.through != 0:
		b.WriteString(" AND " + f + " <= " + feed.DateTime(q.through))
	default:
		b.WriteString(" AND " + f + " < " + feed.DateTime(q.before))
	}
	return b.String()
}
