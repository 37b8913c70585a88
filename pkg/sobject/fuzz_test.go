package sobject

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/errtest"
	"sf2loki/pkg/salesforce"
)

// Objects are read as they are written.
func FuzzParseObjects(f *testing.F) {
	for _, s := range []string{"LoginEvent", "LoginEvent:EventDate,big,poll=5m0s", "A, B:C ,poll=1h", "big", "poll=5m", "A,poll=", "A,poll=-1s", "A:", ":B", "A B", "", ",", "A,big,big,B,poll=1s,poll=2s", "A,é", strings.Repeat("7", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseObjects(text, time.ParseDuration)
		if err != nil {
			return
		}
		var parts []string
		for _, o := range list {
			part := o.Name
			if o.Field != "" {
				part += ":" + o.Field
			}
			if o.Big {
				part += ",big"
			}
			if o.Poll != 0 {
				part += ",poll=" + o.Poll.String()
			}
			if parts = append(parts, part); !salesforce.IsName(o.Name) || o.Poll < 0 || o.field() == "" {
				t.Fatalf("%q is %+v", text, o)
			}
		}
		if again, err := ParseObjects(strings.Join(parts, ","), time.ParseDuration); err != nil || !slices.Equal(again, list) {
			t.Fatalf("%q is %+v and then %+v, %v", text, list, again, err)
		}
	})
}

// described answers every request.
type described []byte

func (d described) Get(context.Context, string) ([]byte, error) { return d, nil }
func (d described) Now() time.Time                              { return time.Unix(1e9, 0) }
func (d described) Query(context.Context, string) iter.Seq2[json.RawMessage, error] {
	return func(func(json.RawMessage, error) bool) {}
}

// A description gives a field to pull by that it names, and queries that a
// request has room for, or is refused.
func FuzzLook(f *testing.F) {
	many := `{"name":"LoginEvent","fields":[{"name":"EventDate","type":"datetime"}`
	for i := range 700 {
		many += fmt.Sprintf(`,{"name":"A_long_name_of_a_field_%d__c","type":"string"}`, i)
	}
	for _, s := range []string{
		`{"name":"LoginEvent","queryable":true,"fields":[{"name":"Id","type":"id"},{"name":"EventDate","type":"datetime","filterable":true}]}`, many + "]}",
		`{"name":"loginevent","fields":[{"name":"CreatedDate","type":"datetime"},{"name":"Home","type":"address"},{"name":"X__c","type":"string"}]}`,
		`{"fields":[{"name":"EventDate","type":"datetime","filterable":false}]}`, `{"queryable":false,"fields":[{"name":"Id"}]}`, `{"fields":[]}`, `{"fields":{}}`, `[]`, `{"fields":[{"name":"Other__c","type":"datetime"}]}`,
		`{"fields":[{"name":"` + strings.Repeat("7", 5000) + `","type":"datetime"}]}`, `{"name":` + strings.Repeat("7", 5000) + `}`, `{"fields":[{"name":"a b\n","type":"datetime"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, description []byte) {
		facts, err := Look(t.Context(), described(description), Object{Name: "LoginEvent"})
		if err != nil {
			errtest.OneLine(t, err)
			return
		}
		if !strings.EqualFold(facts.Name, "LoginEvent") || !salesforce.IsName(facts.Field) {
			t.Fatalf("%s is %+v", description, facts)
		}
		s, err := learn(t.Context(), described(description), Object{Name: "LoginEvent"})
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range s.selects {
			for _, list := range append(way.parts, way.list) {
				if len(url.QueryEscape(list)) > maxList && strings.Contains(list, ",") || way.limit <= 0 {
					t.Fatalf("%s: %d bytes of fields, %d rows", description, len(list), way.limit)
				}
			}
		}
	})
}
