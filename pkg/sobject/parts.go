package sobject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

const (
	maxPart  = 7000 // bytes of a list of fields beside which Ids have to find room
	joinRows = 100  // rows of a page whose other fields are asked for by Id; a WHERE takes 4,000 characters
)

// inParts is a selection of more fields than one query can name: the first
// part finds the rows, the others are asked for by their Ids.
func inParts(names []string, field string) selection {
	var lists []string
	var part []string
	size := 0
	first := func(name string) bool { return name == "Id" || strings.EqualFold(name, field) }
	for _, name := range slices.Concat(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !first(n) }),
		slices.DeleteFunc(slices.Clone(names), first)) {
		n := len(url.QueryEscape(name + ", "))
		if size += n; size > maxPart {
			lists, part, size = append(lists, strings.Join(part, ", ")), []string{"Id"}, n
		}
		part = append(part, name)
	}
	lists = append(lists, strings.Join(part, ", "))
	return selection{list: lists[0], limit: joinRows, parts: lists[1:]}
}

// noParts is the error of a Big Object that would have to be read in parts:
// its rows have no Ids.
func noParts(name string, refusal error) error {
	var why *salesforce.Error // without the status that it had by itself
	errors.As(refusal, &why)
	return sysexits.WithHint(sysexits.Errorf(sysexits.Config, "object %s: a query for all of its fields would be too long, and it does not take FIELDS(ALL): %w", name, why),
		"rows of Big Objects have no Ids by which their fields could be asked for in parts; try another --api-version")
}

// ask runs a query, or where the selection is in parts several, whose rows it
// puts together.
func (t *series) ask(ctx context.Context, q *query) iter.Seq2[json.RawMessage, error] {
	sel := q.sch.inUse()
	if len(sel.parts) == 0 {
		return t.src.cfg.API.Query(ctx, q.soql())
	}
	return func(yield func(json.RawMessage, error) bool) {
		rows, ids, failed := t.collect(ctx, q.soql())
		for _, list := range sel.parts {
			if len(ids) == 0 {
				break
			}
			if err := t.join(ctx, q.sch.name, list, rows, ids); err != nil {
				yield(nil, err)
				return
			}
		}
		for _, id := range ids {
			if !yield(rows[id], nil) {
				return
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// collect gives the rows of an answer by their Ids, and these in its order;
// with an error those that came before it.
func (t *series) collect(ctx context.Context, soql string) (map[string]json.RawMessage, []string, error) {
	rows, ids := map[string]json.RawMessage{}, []string(nil)
	for raw, err := range t.src.cfg.API.Query(ctx, soql) {
		if err != nil {
			return rows, ids, err
		}
		id, err := t.idOf(raw)
		if err != nil {
			return rows, ids, err
		}
		rows[id], ids = raw, append(ids, id)
	}
	return rows, ids, nil
}

func (t *series) idOf(raw json.RawMessage) (string, error) {
	if err := t.rows.row.Parse(raw); err != nil {
		return "", &feed.OddAnswer{Text: fmt.Sprintf("%s: %v", t.sch.name, err)}
	}
	id := t.rows.row.Text("Id")
	if len(id) == 0 {
		return "", &feed.OddAnswer{Text: t.sch.name + ": a row of the answer has no Id"}
	}
	return string(id), nil
}

// join adds further fields to rows.
func (t *series) join(ctx context.Context, name, list string, rows map[string]json.RawMessage, ids []string) error {
	t.emit.Query()
	more, found, err := t.collect(ctx, "SELECT "+list+" FROM "+name+" WHERE Id IN "+salesforce.QuoteList(ids))
	if err != nil {
		return err
	}
	for _, id := range ids {
		other, ok := more[id]
		if !ok {
			return &salesforce.Error{Op: "query", Kind: salesforce.KindLocator, Err: salesforce.ErrShort,
				Message: fmt.Sprintf("asked for further fields of %d rows, the answer held %d", len(ids), len(found))}
		}
		if err := t.rows.row.Parse(other); err != nil {
			return &feed.OddAnswer{Text: fmt.Sprintf("%s: %v", name, err)}
		}
		joined := slices.Clone(rows[id][:len(rows[id])-1])
		for i, column := range t.rows.row.Names {
			if string(column) == "Id" {
				continue
			}
			joined = append(append(append(joined, `,"`...), column...), `":`...)
			joined = append(joined, t.rows.row.Raw(i)...)
		}
		rows[id] = append(joined, '}')
	}
	return nil
}
