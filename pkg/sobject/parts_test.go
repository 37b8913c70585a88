package sobject

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
	"sf2loki/pkg/sftest/soql"
	"sf2loki/pkg/sysexits"
)

// wide defines an object with more fields than one query can name, which does
// not take FIELDS(ALL).
func wide(b *bench, name string, big bool) {
	fields := []soql.Field{{Name: "Id", Type: soql.ID}}
	for i := range 600 {
		fields = append(fields, soql.Field{Name: fmt.Sprintf("F%03d%s__c", i, strings.Repeat("x", 30))})
	}
	at := "CreatedDate"
	if big {
		at = "EventDate"
		fields = append(fields, soql.Field{Name: "EventIdentifier"})
	}
	fields = append(fields, soql.Field{Name: at, Type: soql.Time})
	b.org.Define(sftest.Table{Object: soql.Object{Name: name, Fields: fields}, KeyPrefix: "a01", BigObject: big})
	b.org.Fault("FIELDS(ALL)", sftest.Fault{Fixture: "err_400_malformed.json", Times: -1})
}

func TestFieldsInParts(t *testing.T) { // peers 29
	b := newBench(t)
	wide(b, "Wide__c", false)
	last := "F599" + strings.Repeat("x", 30) + "__c"
	var ids []string
	for i := range 230 {
		ids = append(ids, b.org.Insert("Wide__c", sftest.Row{"CreatedDate": b.ago(time.Hour), last: fmt.Sprint("a\"", i)})...)
	}
	got := b.must("Wide__c")
	sameSet(t, origins(got), ids)
	inOrder(t, got)
	for i, l := range got {
		var fields map[string]any
		if err := json.Unmarshal([]byte(l.Line), &fields); err != nil || len(fields) != 602 || strings.Count(l.Line, `":`) != 602 {
			t.Fatalf("%d fields, %v: %.200s", len(fields), err, l.Line)
		}
		if fields[last] != fmt.Sprint("a\"", i) || fields["Id"] != l.Origin {
			t.Fatalf("row %d has %v", i, fields[last])
		}
	}
	for _, r := range b.org.Requests("/query") {
		if n := len(r.Query); n > 16_000 || strings.Contains(r.Query, "+") || r.Status >= 400 && !strings.Contains(r.Query, "FIELDS(ALL)") {
			t.Errorf("a query of %d bytes, %d", n, r.Status)
		}
	}
	b.doc = map[string]string{}
	if again := b.must("Wide__c"); again[7].Line != got[7].Line {
		t.Error("a row is not the same again")
	}
}

// A row that goes while its fields are asked for does not hold others up.
func TestRowGoesBetweenParts(t *testing.T) {
	b := newBench(t)
	wide(b, "Wide__c", false)
	var ids []string
	for range 5 {
		ids = append(ids, b.org.Insert("Wide__c", sftest.Row{"CreatedDate": b.ago(time.Hour)})...)
	}
	b.org.Fault("WHERE Id IN", sftest.Fault{Short: 1})
	sameSet(t, origins(b.must("Wide__c")), ids)

	b.doc = map[string]string{}
	b.api = func(a API) API { return &deleting{a, func() { b.org.Delete("Wide__c", ids[2]) }} }
	sameSet(t, origins(b.must("Wide__c")), append(ids[:2:2], ids[3:]...))
}

// deleting is an API that does something before fields are asked for by Id.
type deleting struct {
	API
	do func()
}

func (d *deleting) Query(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	if strings.Contains(soql, "WHERE Id IN") {
		d.do()
	}
	return d.API.Query(ctx, soql)
}

func TestBigObjectInParts(t *testing.T) {
	for _, spec := range []string{"Wide__b:EventDate", "Wide__b:EventDate,big"} {
		b := newBench(t)
		wide(b, "Wide__b", true)
		b.org.Insert("Wide__b", sftest.Row{"EventDate": b.ago(time.Hour), "EventIdentifier": "5f1c3b60-0000-4000-8000-000000000001"})
		lines, err := b.pull(spec)
		if sysexits.Of(err) != sysexits.Config || len(entries(lines)) != 0 || !strings.Contains(fmt.Sprint(err), "all of its fields") {
			t.Errorf("%s: %d lines, %v", spec, len(lines), err)
		}
	}
}
