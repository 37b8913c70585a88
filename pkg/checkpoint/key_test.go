package checkpoint

import "testing"

func TestParseKey(t *testing.T) {
	tests := []struct {
		text string
		want Key
	}{
		{"eventlogfile:Login", Key{Source: "eventlogfile", Object: "Login"}},
		{"eventlogfile:Daily:Login", Key{Source: "eventlogfile", Object: "Daily:Login"}},
		{"apexlog", Key{Source: "apexlog"}},
		{"org=prod:pubsub:/event/X", Key{Org: "prod", Source: "pubsub", Object: "/event/X"}},
		{"org=a:lane=b:eventlog_objects:LoginEvent", Key{Org: "a", Lane: "b", Source: "eventlog_objects", Object: "LoginEvent"}},
		{"lane=b:apexlog", Key{Lane: "b", Source: "apexlog"}},
		{"window=2026-06-01T00:00:00Z/2026-07-01T00:00:00Z:eventlogfile:Login",
			Key{Window: "2026-06-01T00:00:00Z/2026-07-01T00:00:00Z", Source: "eventlogfile", Object: "Login"}},
		{"org=a:lane=b:window=/2026-07-01:apexlog", Key{Org: "a", Lane: "b", Window: "/2026-07-01", Source: "apexlog"}},
		{"file:/var/in/a:b.csv", Key{Source: "file", Object: "/var/in/a:b.csv"}},
		{"egress:budget", Key{Source: "egress", Object: "budget"}},
		{"backfill:org=x:Hourly:Login", Key{Source: "backfill", Object: "org=x:Hourly:Login"}},
		{"", Key{}},
		{"org=", Key{Source: "org="}},
		{"org=a", Key{Source: "org=a"}},
		{"window=1/2:unknown:x", Key{Source: "window=1/2", Object: "unknown:x"}},
		{"window=1", Key{Source: "window=1"}},
	}
	for _, test := range tests {
		got := ParseKey(test.text)
		if got != test.want {
			t.Errorf("%q: %+v, want %+v", test.text, got, test.want)
		}
		if got.String() != test.text {
			t.Errorf("%q becomes %q", test.text, got)
		}
	}
}

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "a/b:c", true},
		{"org=*:pubsub:*", "org=a:pubsub:/event/X", true}, {"org=*:pubsub:*", "pubsub:/event/X", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"*b*", "abc", true}, {"*b*d", "abcd", true}, {"*b*d", "abc", false},
		{"", "", true}, {"", "a", false},
	}
	for _, test := range tests {
		if got := match(test.pattern, test.text); got != test.want {
			t.Errorf("%q on %q: %v", test.pattern, test.text, got)
		}
	}
}
