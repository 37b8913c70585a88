package shape

import (
	"fmt"
	"strings"
	"testing"

	"sf2loki/pkg/record"
)

type row []string

func (r row) Cell(i int) []byte { return []byte(r[i]) }

// metadata is the structured metadata of a row.
func metadata(s *Shape, c *Columns, r Cells) []record.Pair {
	c.Take(r)
	_, md := s.Type("eventlogfile", "Login").Pairs(c)
	return md
}

func TestLevel(t *testing.T) { // C8
	for _, tt := range []struct{ name, value, want string }{
		{"EXCEPTION_MESSAGE", "INVALID_FIELD", "error"},
		{"EXCEPTION_MESSAGE", " N/A ", "info"},
		{"EXCEPTION_TYPE", "System.NullPointerException", "error"},
		{"ERROR_MESSAGE", "0", "info"},
		{"ERROR_MESSAGE", "null", "info"},
		{"ERROR_CODE", "NONE", "info"},
		{"ERROR_CODE", "E1", "error"},
		{"STATUS_CODE", "200", "info"},
		{"STATUS_CODE", "404", "warn"},
		{"STATUS_CODE", "503", "error"},
		{"STATUS_CODE", "2xx", "info"},
		{"STATUS_CODE", "7", "info"},
		{"STATUS_CODE", "99999999999999999999", "info"},
		{"REQUEST_STATUS", "S", "info"},
		{"REQUEST_STATUS", "F", "warn"},
		{"REQUEST_STATUS", "", "info"},
		{"LOGIN_STATUS", "login_no_error", "info"},
		{"LOGIN_STATUS", "LOGIN_ERROR_INVALID_PASSWORD", "warn"},
		{"OPERATION_STATUS", "Completed", "info"},
		{"OPERATION_STATUS", "Aborted", "warn"},
		{"Status", "True", "info"},
		{"Status", "False", "warn"},
		{"SESSION_LEVEL", "HIGH_ASSURANCE", "info"},
		{"LOGIN_TYPE", "error", "info"},
		{"USER_TYPE", "error", "info"},
	} {
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		got := metadata(s, s.Columns([]string{tt.name}), row{tt.value})
		if string(got[0].Value) != tt.want {
			t.Errorf("%s=%q gives %s, want %s", tt.name, tt.value, got[0].Value, tt.want)
		}
	}
}

func TestLevelOrder(t *testing.T) {
	s, _ := New(Config{})
	c := s.Columns([]string{"LOGIN_STATUS", "REQUEST_STATUS", "STATUS_CODE", "ERROR_CODE"})
	for want, r := range map[string]row{
		"error": {"LOGIN_NO_ERROR", "S", "200", "X"},
		"warn":  {"LOGIN_NO_ERROR", "S", "404", ""},
		"info":  {"LOGIN_ERROR", "S", "", ""},
	} {
		if got := metadata(s, c, r); string(got[0].Value) != want {
			t.Errorf("%q gives %s, want %s", r, got[0].Value, want)
		}
	}
}

func TestMetadata(t *testing.T) {
	s, err := New(Config{Metadata: []string{"USER_ID", "ABSENT", "EMPTY"}})
	if err != nil {
		t.Fatal(err)
	}
	got := metadata(s, s.Columns([]string{"EMPTY", "USER_ID"}), row{"", "005"})
	if text(got) != "level=info USER_ID=005 " {
		t.Errorf("metadata is %s", text(got))
	}
	for _, bad := range [][]string{{"level"}, {"A", "A"}} {
		if _, err := New(Config{Metadata: bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestLabels(t *testing.T) { // #89 #140: the identity is that of the run, and what is not set is not there
	s, _ := New(Config{Identity: Identity{Job: "sf2loki", OrgID: "00D000000000001AAA", Org: "prod"}})
	if got := text(s.Labels("eventlogfile", "Login")); got != "event_type=Login job=sf2loki org=prod sf_org_id=00D000000000001AAA source=eventlogfile " {
		t.Errorf("labels are %s", got)
	}
}

func text(pairs []record.Pair) string {
	out := ""
	for _, p := range pairs {
		out += string(p.Name) + "=" + string(p.Value) + " "
	}
	return out
}

func TestMetadataAllocatesNothing(t *testing.T) {
	s, _ := New(Config{Metadata: []string{"A"}})
	c := s.Columns([]string{"A", "REQUEST_STATUS", "STATUS_CODE", "LOGIN_STATUS", "EXCEPTION_MESSAGE"})
	r := &fixed{[]byte("x")}
	if n := testing.AllocsPerRun(100, func() { metadata(s, c, r) }); n > 0 {
		t.Errorf("%v allocations per row", n)
	}
}

type fixed struct{ text []byte }

func (f *fixed) Cell(int) []byte { return f.text }

func TestManyTypes(t *testing.T) {
	columns, err := ParseLabelColumns([]string{"*=A"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{LabelColumns: columns, LabelValues: 5})
	if err != nil {
		t.Fatal(err)
	}
	first := s.Type("pubsub", "T0")
	for i := range 3 * maxTypes {
		typ := s.Type("pubsub", fmt.Sprint("T", i))
		if labels := fmt.Sprintf("%s", typ.Labels()); !strings.Contains(labels, fmt.Sprint("T", i)) {
			t.Fatalf("labels are %s", labels)
		}
	}
	if len(s.types) != maxTypes || s.Type("pubsub", "T0") != first || len(first.promoted) != 1 {
		t.Errorf("%d types are remembered", len(s.types))
	}
}
