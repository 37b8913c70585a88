package overlap

import (
	"slices"
	"strings"
	"testing"

	"sf2loki/pkg/fnmatch"
)

func TestMeet(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"", "", true}, {"a", "", false}, {"*", "", true}, {"*", "*", true}, {"a*", "*b", true}, {"a*", "b*", false},
		{"Login*", "log*AS", true}, {"?", "**", true}, {"a?c", "ab*", true}, {"a?", "a", false}, {"[ab]c", "?c", true},
		{"[ab]", "[cd]", true}, {"x[!a]*", "xb", true}, {"*a*b*", "*b*a*", true}, {"abc", "a*c*d", false}, {"[]]x", "?x", true},
	} {
		if meet(tt.a, tt.b) != tt.want || meet(tt.b, tt.a) != tt.want {
			t.Errorf("%s and %s: %t", tt.a, tt.b, !tt.want)
		}
	}
}

// FuzzMeet holds meet to this: whatever fits both patterns is a meeting.
func FuzzMeet(f *testing.F) {
	f.Add("a*", "*b", "ab")
	f.Add("x?[ab]", "x*", "xya")
	f.Add("[!]]", "0", "0")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		for _, s := range []string{a, b, text} {
			if strings.ContainsFunc(s, func(r rune) bool { return r > 0x7e || r < ' ' }) {
				return
			}
		}
		a, b, text = strings.ToLower(a), strings.ToLower(b), strings.ToLower(text)
		p, err1 := fnmatch.Compile(a)
		q, err2 := fnmatch.Compile(b)
		if err1 == nil && err2 == nil && p.Match(text) && q.Match(text) && !meet(a, b) {
			t.Fatalf("%q fits %q and %q, which do not meet", text, a, b)
		}
	})
}

func TestWithout(t *testing.T) {
	for _, tt := range []struct{ pattern, name string }{
		{"*", "login"}, {"/event/*", "login"}, {"/event/*EventStream", "login"}, {"/ev*", "login"}, {"/event/Login*", "login"},
		{"/event/LoginEv*", "login"}, {"*Stream", "login"}, {"*/Lo?in*", "login"}, {"/event/[L]*", "login"}, {"*t/*", "login"},
	} {
		if !slices.ContainsFunc(without("/event/", tt.pattern, "EventStream"), func(p string) bool { return meet(p, tt.name) }) {
			t.Errorf("%s without its ends: %q", tt.pattern, without("/event/", tt.pattern, "EventStream"))
		}
	}
	for _, pattern := range []string{"/data/*", "/event/*Event", "/event/Logout*", "Login*", "/event/LoginEventX*"} {
		if got := without("/event/", pattern, "EventStream"); slices.ContainsFunc(got, func(p string) bool { return meet(p, "login") }) {
			t.Errorf("%s without its ends: %q", pattern, got)
		}
	}
}

func elf(names ...string) string {
	var c []string
	for _, n := range names {
		c = append(c, `{"source":"eventlogfile","event_type":"`+n+`","key":"eventlogfile:`+n+`"}`)
	}
	return `{"source":"eventlogfile","static":true,"interval":"Hourly","categories":[` + strings.Join(c, ",") + `]}`
}

func object(names ...string) string {
	return strings.NewReplacer("eventlogfile", "eventlog_objects", `,"interval":"Hourly"`, "").Replace(elf(names...))
}

func topic(names ...string) string {
	var c, patterns []string
	for _, n := range names {
		if strings.ContainsAny(n, "*?[") {
			patterns = append(patterns, `"`+n+`"`)
			continue
		}
		c = append(c, `{"topic":"`+n+`","event_type":"`+n[strings.LastIndexByte(n, '/')+1:]+`","key":"pubsub:`+n+`"}`)
	}
	return `{"source":"pubsub","static":true,"patterns":[` + strings.Join(patterns, ",") + `],"categories":[` + strings.Join(c, ",") + `]}`
}

// with adds members to a plan.
func with(plan, members string) string { return `{` + members + `,` + plan[1:] }

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b string
		want string // beginning of the only overlap; empty: none
	}{
		{"two sources", elf("Login", "API"), topic("/event/LoginEventStream"), "login is pulled by eventlogfile Login of a and by pubsub /event/LoginEventStream of b"},
		{"an object", object("LoginEvent"), topic("/event/LoginEventStream"), "login is"},
		{"the history of logins", object("LoginHistory"), elf("Login"), "login is"},
		{"the newer family", object("ReportAnomalyEventStore"), topic("/event/ReportAnomalyEvent"), "reportanomaly is"},
		{"an event log object", object("RestApiEventLog"), elf("RestApi"), "restapi is"},
		{"another category", elf("API"), topic("/event/LoginEventStream"), ""},
		{"longer by a bit", elf("LoginAs"), topic("/event/LoginEventStream"), ""},
		{"objects of one category", object("LoginEvent"), object("LoginHistory"), ""},
		{"debug logs", `{"source":"apexlog","categories":[{"event_type":"apexlog","key":"apexlog"}]}`, elf("apexlog"), ""},
		{"debug logs twice", `{"source":"apexlog","categories":[{"event_type":"apexlog","key":"apexlog"}]}`,
			`{"source":"apexlog","categories":[{"event_type":"apexlog","key":"apexlog"}]}`, "position apexlog is moved by apexlog apexlog of a"},
		{"one position", elf("Login"), elf("Login"), "position eventlogfile:Login is moved by"},
		{"a pattern that takes it", elf("Login"), elf("Log*"), "position eventlogfile:Login is moved by"},
		{"two patterns that meet", elf("*In"), elf("Log*"), "position eventlogfile:*In is moved by"},
		{"two patterns that do not", elf("API*"), elf("Log*"), ""},
		{"excluded by name", elf("Login"), with(elf("Log*"), `"exclude":["login"]`), ""},
		{"excluded by a pattern", elf("Logi*"), with(elf("*"), `"exclude":["Log*"]`), ""},
		{"not all excluded", elf("Lo*"), with(elf("*"), `"exclude":["Log*"]`), "position eventlogfile:Lo* is"},
		{"another lane", elf("Login"), with(strings.ReplaceAll(elf("Login"), `"eventlogfile:`, `"lane=x:eventlogfile:`), `"lane":"x"`), ""},
		{"daily beside hourly", elf("*"), strings.NewReplacer("Hourly", "Daily", "eventlogfile:", "eventlogfile:Daily:").Replace(elf("*")), ""},
		{"a window beside it", elf("*"), with(strings.ReplaceAll(elf("*"), `"eventlogfile:`, `"window=/x:eventlogfile:`), `"until":"x"`), ""},
		{"both stars", elf("*"), topic("*"), "api is"}, // #91
		{"what no log file is of", object("SetupAuditTrail", "FileEventStore"), elf("*"), ""},
		{"a star and a name", elf("Login"), topic("*"), "login is"},
		{"a star and the excluded", elf("Login"), with(topic("*"), `"exclude":["/event/Login*"]`), ""},
		{"a star and what is included", elf("Login", "API"), with(topic("*"), `"include":["/event/Api*"]`), "api is"},
		{"a pattern of topics", elf("Login"), topic("/event/*"), "login is"},
		{"a pattern of topics, excluded", elf("Login"), with(topic("/event/*"), `"exclude":["/event/LoginEvent*"]`), ""},
		{"a pattern that cannot", elf("Login"), topic("/event/Logout*"), ""},
		{"patterns of both", elf("Log*"), topic("/event/*EventStream"), "log* and /event/*eventstream is"},
		{"patterns of both, covered", with(elf("*"), `"exclude":["Log*"]`), topic("/event/Login*EventStream"), ""},
		{"topic in a pattern of topics", topic("/event/LoginEventStream"), topic("/event/*"), "position pubsub:/event/LoginEventStream is"},
		{"another org", with(elf("Login"), `"org":"x"`), topic("/event/LoginEventStream"), ""},
		{"another id", with(elf("Login"), `"org_id":"x"`), with(topic("/event/LoginEventStream"), `"org_id":"y"`), ""},
		{"one id, two names", with(elf("Login"), `"org":"a","org_id":"x"`), with(topic("/event/LoginEventStream"), `"org_id":"x"`), "login is"},
		{"a live plan goes by what there is", strings.Replace(elf("API"), "true", "false", 1), strings.Replace(topic("*", "/event/LoginEventStream"), "true", "false", 1), ""},
		{"a topic that cannot be read", elf("Login"), strings.Replace(topic("/event/LoginEventStream"), `"key"`, `"error":"no right","key"`, 1), ""},
		{"files on disk", `{"source":"eventlogfile","categories":[{"path":"a.csv","key":"file:a.csv"}]}`, elf("*"), ""},
	} {
		var plans []Plan
		for name, text := range map[string]string{"a": tt.a, "b": tt.b} {
			p, err := Read(name, strings.NewReader(text))
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			plans = append(plans, p...)
		}
		slices.SortFunc(plans, func(x, y Plan) int { return strings.Compare(x.File, y.File) })
		found := Find(plans)
		switch {
		case tt.want == "" && len(found) > 0:
			t.Errorf("%s: %v", tt.name, found)
		case tt.want != "" && (len(found) == 0 || !strings.HasPrefix(found[0].String(), tt.want)):
			t.Errorf("%s: %v, want %s", tt.name, found, tt.want)
		}
		slices.Reverse(plans)
		if back := Find(plans); (len(back) > 0) != (len(found) > 0) {
			t.Errorf("%s: %v, the other way round %v", tt.name, found, back)
		}
	}
}

// Both stars are no overlap once what both know is excluded from one of them.
func TestStarsApart(t *testing.T) {
	var exclude []string
	for _, s := range monitoring {
		exclude = append(exclude, `"`+CategoryOf(pubsub, s)+`"`)
	}
	a, _ := Read("a", strings.NewReader(with(elf("*"), `"exclude":[`+strings.Join(exclude, ",")+`]`)))
	b, _ := Read("b", strings.NewReader(topic("*")))
	if found := Find(append(a, b...)); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestRead(t *testing.T) {
	if p, err := Read("a", strings.NewReader(elf("Login")+"\n"+object("LoginEvent"))); err != nil || len(p) != 2 {
		t.Errorf("%d plans, %v", len(p), err)
	}
	for text, want := range map[string]string{
		"": "a holds no plan", "{": "a: unexpected EOF", "[]": "a: json", strings.Repeat(" ", maxBytes+1): "a has more than 4 MiB", elf("Login") + strings.Repeat(" ", maxBytes): "a has more than 4 MiB", `{"labels":{}}`: "a holds an object that is no plan",
	} {
		if _, err := Read("a", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
}
