package sobject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// schema is what has been found out about an object.
type schema struct {
	name    string // as the org spells it
	field   string
	big     bool
	selects []selection // the first is in use; the others are for when it is refused
	at      time.Time
}

// selection is a way to ask for all fields.
type selection struct {
	list  string
	limit int // rows that one query may ask for

	parts []string // lists of further fields, by the Ids of the rows
}

const (
	most    = 2000 // rows of one page of an answer
	fewest  = 200  // a page of an answer has no fewer, unless it is the last
	maxList = 9000 // bytes of a list of fields in a URL, which takes 16,384 with its headers
)

// inUse is the selection that queries are made with.
func (s *schema) inUse() selection { return s.selects[0] }

// next goes on to another selection, after the one in use was refused. The
// error tells that there is one, but not for Big Objects.
func (s *schema) next(refusal error) (bool, error) {
	if len(s.selects) < 2 {
		return false, nil
	}
	if s.big && len(s.selects[1].parts) > 0 {
		return false, noParts(s.name, refusal)
	}
	s.selects = s.selects[1:]
	return true, nil
}

type description struct {
	Name      string `json:"name"`
	Queryable *bool  `json:"queryable"`
	Fields    []struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		Filterable *bool  `json:"filterable"`
	} `json:"fields"`
}

// learn describes an object. Which fields it has decides what is selected; what
// it cannot be pulled by is refused.
func learn(ctx context.Context, api API, o Object) (*schema, error) {
	s := &schema{name: o.Name, field: o.field(), big: o.Big, at: api.Now()}
	raw, err := api.Get(ctx, "sobjects/"+o.Name+"/describe")
	switch {
	case salesforce.KindOf(err) == salesforce.KindPermission:
		// The query may be allowed all the same.
		s.selects = []selection{{list: "FIELDS(ALL)", limit: fewest}}
		return s, nil
	case feed.Judge(err) == feed.Gone && err != nil:
		return nil, sysexits.WithHint(sysexits.Errorf(sysexits.Config, "object %s: %w", o.Name, err),
			"it does not exist, or the user or the org has no right to it; sf-pull discover shows what there is")
	case err != nil:
		return nil, fmt.Errorf("describe %s: %w", o.Name, err)
	}
	var d description
	if err := json.Unmarshal(raw, &d); err != nil || len(d.Fields) == 0 {
		return nil, &feed.OddAnswer{Text: fmt.Sprintf("describe %s: the answer describes no object", o.Name)}
	}
	if strings.EqualFold(d.Name, o.Name) {
		s.name = d.Name
	}
	if d.Queryable != nil && !*d.Queryable {
		return nil, sysexits.WithHint(sysexits.Errorf(sysexits.Config, "object %s cannot be queried", s.name),
			"streams have a stored twin under another name: sf-pull discover shows which can be queried")
	}
	if err := s.chooseField(o, &d); err != nil {
		return nil, err
	}
	s.selects = d.selections(s.field)
	return s, nil
}

// chooseField checks the timestamp field, or finds the one that the name of
// the object does not tell.
func (s *schema) chooseField(o Object, d *description) error {
	candidates := []string{s.field}
	if o.Field == "" {
		candidates = append(candidates, "EventDate", "CreatedDate")
	}
	var times []string
	for _, f := range d.Fields {
		if f.Type == "datetime" && (f.Filterable == nil || *f.Filterable) {
			times = append(times, f.Name)
		}
	}
	for _, want := range candidates {
		if i := slices.IndexFunc(times, func(name string) bool { return strings.EqualFold(name, want) }); i >= 0 {
			s.field = times[i]
			return nil
		}
	}
	err := sysexits.Errorf(sysexits.Config, "object %s has no field %s that holds a time to filter by", s.name, s.field)
	if len(times) == 0 {
		return err
	}
	return sysexits.WithHint(err, "name one as --object "+s.name+":FIELD: "+strings.Join(times, ", "))
}

// selections are the ways to ask for all fields, the best first: by the group
// of standard fields, which takes a full page; by name; by the group of all
// fields, which is short but takes 200 rows at a time; when there are too many
// names for one query, in parts. Compound fields repeat what their parts say
// and cannot be asked for by name.
func (d *description) selections(field string) []selection {
	var names []string
	custom, compound := false, false
	for _, f := range d.Fields {
		if f.Type == "address" || f.Type == "location" {
			compound = true
			continue
		}
		custom = custom || strings.HasSuffix(f.Name, "__c")
		names = append(names, f.Name)
	}
	var out []selection
	if !custom && !compound {
		out = append(out, selection{list: "FIELDS(STANDARD)", limit: most})
	}
	all := selection{list: "FIELDS(ALL)", limit: fewest}
	if list := strings.Join(names, ", "); len(url.QueryEscape(list)) <= maxList {
		return append(out, selection{list: list, limit: most}, all)
	}
	return append(out, all, inParts(names, field))
}

// probe asks whether the object takes the query that it will be pulled by, and
// whether it is a Big Object. upper is a time that rows have been written by.
func (s *schema) probe(ctx context.Context, api API, upper int64) error {
	var refusal error
	for {
		q := query{sch: s, from: cursor{time: upper - int64(time.Minute)}, before: upper, limit: 1}
		err := drain(ctx, api, q.soql())
		switch salesforce.KindOf(err) {
		case salesforce.KindBigObject:
			s.big = true
			if len(s.inUse().parts) > 0 {
				return noParts(s.name, refusal)
			}
			return nil
		case salesforce.KindQueryTimeout: // it was understood
			return nil
		case salesforce.KindQuery:
			refusal = err
			switch again, err := s.next(err); {
			case err != nil:
				return err
			case again:
				continue
			}
			var e *salesforce.Error
			errors.As(err, &e)
			return sysexits.Wrap(sysexits.Config, fmt.Errorf("object %s: %w", s.name, e))
		}
		if err != nil {
			return fmt.Errorf("object %s: %w", s.name, err)
		}
		return nil
	}
}

func drain(ctx context.Context, api API, soql string) error {
	for _, err := range api.Query(ctx, soql) {
		if err != nil && !errors.Is(err, salesforce.ErrShort) {
			return err
		}
	}
	return nil
}
