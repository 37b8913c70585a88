package tasktest

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/scripts/testbed"
)

var runTasks = []task{
	{"Event log files from cron", []int{4}, fromCron},
	{"A lane that runs all the time", []int{5}, allTheTime},
	{"Hourly files for speed, daily ones for completeness", []int{8}, hourlyAndDaily},
	{"Real-time events on two hosts", []int{9}, twoHosts},
	{"A second consumer of the same topic", []int{10}, secondConsumer},
	{"Several orgs on one host", []int{11}, severalOrgs},
	{"Two destinations", []int{32}, twoDestinations},
	{"Filter in the middle", []int{33}, filterInTheMiddle},
	{"Archive beside Loki", []int{32}, archive},
	{"Records to a topic of Kafka", []int{32}, kafka},
	{"Debug logs of two users", []int{34}, debugLogs},
}

// cron runs the lines of a crontab as cron does: with nothing in the
// environment but its own settings, by sh, and mails what was printed.
func (b *bench) cron(crontab string) (mail string) {
	b.T.Helper()
	env := slices.DeleteFunc(slices.Clone(b.Env), func(pair string) bool { return regexp.MustCompile(`^(SF_PULL|LOKI_PUSH|CKPT)_`).MatchString(pair) })
	job := regexp.MustCompile(`^(?:\S+ ){5}\S+ +(.*)$`)
	kept := b.Env
	defer func() { b.Env = kept }()
	b.Env = env
	ran := 0
	for line := range strings.Lines(crontab) {
		line = strings.TrimSuffix(line, "\n")
		switch m := job.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "#"):
		case regexp.MustCompile(`^[A-Z_]+=`).MatchString(line):
			b.Set(line)
		case m != nil:
			if strings.Contains(m[1], "%") {
				b.T.Errorf("cron takes %% for a line feed: %s", m[1])
			}
			r := b.sh(0, m[1])
			mail += r.Stdout + r.Stderr
			ran++
		default:
			b.T.Fatalf("no line of a crontab: %q", line)
		}
	}
	if ran == 0 {
		b.T.Fatalf("no job in %q", crontab)
	}
	return mail
}

func fromCron(b *bench, blocks []string) {
	b.acme("--hours", "50", "--rows", "5", "--types", "Login,API", "--daily")
	if mail := b.cron(blocks[0]); !strings.Contains(mail, "this is a first start") || strings.Count(mail, "\n") != 1 {
		b.T.Errorf("the first mail: %s", mail)
	}
	n := b.stored(acmeLoki, "7", `{event_type="Login"}`)
	if n == 0 || b.stored(acmeLoki, "7", `{event_type="API"}`) != n {
		b.T.Errorf("%d logins", n)
	}
	if mail := b.cron(blocks[0]); mail != "" {
		b.T.Errorf("the second mail: %s", mail)
	}
}

// freePort is the first of three that nobody listens at.
func freePort(t *testing.T) int {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first := l.Addr().(*net.TCPAddr).Port
		l.Close()
		free := 0
		for port := first; port < first+3; port++ {
			if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
				free++
				l.Close()
			}
		}
		if free == 3 {
			return first
		}
	}
	t.Fatal("no three ports are free")
	return 0
}

// lane writes the configuration of a lane as the documentation has it, with
// directories and ports of this test.
func (b *bench) lane(name, conf string) {
	b.T.Helper()
	port := freePort(b.T)
	b.places = append(b.places, "127.0.0.1:9101", fmt.Sprintf("127.0.0.1:%d", port), "127.0.0.1:9102", fmt.Sprintf("127.0.0.1:%d", port+1))
	b.Write(b.here("/etc/sf2loki/"+name+".conf"), b.here(conf+fmt.Sprintf(`
SF2LOKI_STATE=/var/lib/sf2loki/%s.json
LOKI_PUSH_SPOOL=/var/spool/sf2loki/%s
`, name, name)))
}

func allTheTime(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "10")
	b.lane("hourly", blocks[0])
	check, run, _ := strings.Cut(strings.TrimSpace(blocks[1]), "\n")
	b.sh(0, check, "PASS  hourly: sf-pull elf")
	end := b.begin("exec " + run)
	want := b.rows("") - b.rows("URI")
	testbed.Eventually(b.T, "the lane has caught up", func() bool { return b.stored(acmeLoki, "7", `{source="eventlogfile"}`) == want })
	if r := end(); r.Status != 0 {
		b.T.Errorf("%v", r)
	}
}

func hourlyAndDaily(b *bench, blocks []string) {
	b.acme("--hours", "50", "--rows", "5", "--types", "Login", "--daily")
	b.Set("SF_PULL_LOOKBACK=3d")
	b.sh(0, blocks[0])
	b.holds(`{event_type="Login"}`, b.rows("Login"))
	b.sh(0, "ckpt list /var/lib/sf2loki/prod.json", "org=prod:eventlogfile:Login ", "org=prod:eventlogfile:Daily:Login ")
}

// buckets has the stores of the documentation in a simulated S3.
func (b *bench) buckets() {
	s3 := checkpointtest.NewS3(b.T)
	b.places = append(b.places, "s3://acme-sf/", "s3://bucket/", "region=eu-west-1", "region=eu-west-1&endpoint="+url.QueryEscape(s3.URL))
	b.Set("AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true")
}

func twoHosts(b *bench, blocks []string) {
	b.acme("--hours", "0", "--events", "20")
	b.buckets()
	b.Set("CKPT_TTL=3s", "CKPT_RENEW=500ms", "CKPT_GRACE=10s")
	selector := `{source="pubsub",event_type=~"LoginEventStream|ApiEventStream"}`
	first := b.begin(blocks[0])
	testbed.Eventually(b.T, "the first host has pushed", func() bool { return b.stored(acmeLoki, "7", selector) == 40 })
	second := b.begin(blocks[0])
	if r := first(); r.Status != 0 {
		b.T.Errorf("the first host: %v", r)
	}
	b.control("bus-publish", `{"bus":{"topic":"/event/LoginEventStream","count":5}}`)
	testbed.Eventually(b.T, "the second host goes on", func() bool { return b.stored(acmeLoki, "7", selector) == 45 })
	if r := second(); r.Status != 0 {
		b.T.Errorf("the second host: %v", r)
	}
}

func secondConsumer(b *bench, blocks []string) {
	b.acme("--hours", "0", "--events", "10")
	b.Set("SF_PULL_IDLE_EXIT=500ms")
	b.sh(0, strings.NewReplacer(" --lane siem", "", "siem.json", "rt.json", " --tenant siem", "", "/siem", "/prod").Replace(blocks[0]))
	b.sh(0, blocks[0])
	b.holds(`{event_type="LoginEventStream"}`, 10)
	if n := b.stored(acmeLoki, "siem", `{event_type="LoginEventStream"}`); n != 10 {
		b.T.Errorf("the second consumer has %d events", n)
	}
	b.sh(0, "ckpt list /var/lib/sf2loki/siem.json", "org=prod:lane=siem:pubsub:/event/LoginEventStream")
}

func severalOrgs(b *bench, blocks []string) {
	b.acme("--hours", "2", "--rows", "5", "--types", "Login")
	conf := sections(b.T, "sf2loki-tasks.7")["A lane that runs all the time"][0]
	for _, org := range []string{"emea", "apac"} {
		b.lane(org, strings.NewReplacer("SF_PULL_ORG=prod", "SF_PULL_ORG="+org, "127.0.0.1:9101", fmt.Sprintf("127.0.0.1:%d", freePort(b.T))).Replace(conf))
	}
	check, run, _ := strings.Cut(strings.TrimSpace(blocks[0]), "\n")
	b.sh(0, check, "PASS  emea:", "PASS  apac:")
	end := b.begin("exec " + run)
	for _, org := range []string{"emea", "apac"} {
		testbed.Eventually(b.T, org+" has caught up", func() bool { return b.stored(acmeLoki, "7", fmt.Sprintf(`{org=%q}`, org)) == b.rows("Login") })
	}
	end()
	// Who forgets the name of the org has two lanes that pull the same.
	b.Write(b.here("/etc/sf2loki/apac.conf"), strings.Replace(b.read(b.here("/etc/sf2loki/apac.conf")), "SF_PULL_ORG=apac", "SF_PULL_ORG=emea", 1))
	b.sh(78, check, "FAIL  all lanes:")
}

func twoDestinations(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "10")
	b.loki("https://second.acme.example", "--multi-tenant")
	b.sh(0, blocks[0])
	b.holds(`{event_type="Login"}`, b.rows("Login"))
	if n := b.stored("https://second.acme.example", "7", `{event_type="Login"}`); n != b.rows("Login") {
		b.T.Errorf("the second one holds %d", n)
	}
}

func filterInTheMiddle(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "10")
	b.sh(0, blocks[0])
	b.holds(`{source="eventlogfile"}`, b.rows("Login"))
	b.sh(0, "ckpt list /var/lib/sf2loki/prod.json", "org=prod:eventlogfile:API ", "org=prod:eventlogfile:URI ")
}

func archive(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "10")
	b.in("bash", 0, blocks[0])
	b.holds(`{source="eventlogfile"}`, b.rows(""))
	// The client of a bucket is not here: its stand-in keeps what it is given.
	b.program("aws", `[ "$1 $2 $3" = "s3 cp -" ] && exec cat >"$HOME/archive/${4##*/}"`)
	b.sh(0, "ckpt rm /var/lib/sf2loki/prod.json 'org=prod:eventlogfile:Login'; rm /archive/*")
	b.in("bash", 0, blocks[1])
	testbed.Eventually(b.T, "the archive is there", func() bool { return b.sh(0, `zstd -qdc /archive/*.zst 2>/dev/null | tail -n 1; :`).Stdout != "" })
	b.loki(acmeLoki+"/new", "--multi-tenant")
	b.Set("LOKI_PUSH_URL=" + b.lokis[acmeLoki+"/new"])
	b.sh(0, blocks[2])
	if n := b.stored(acmeLoki+"/new", "7", `{event_type="Login"}`); n != b.rows("Login") {
		b.T.Errorf("%d logins come from the archive", n)
	}
}

func kafka(b *bench, blocks []string) {
	b.acme("--hours", "2", "--rows", "10")
	// No broker is here: the stand-in keeps what kcat would send.
	b.program("kcat", `[ "$*" = "-P -b broker:9092 -t salesforce" ] && exec cat >"$HOME/topic"`)
	b.in("bash", 0, blocks[0])
	testbed.Eventually(b.T, "the topic has all records", func() bool { return strings.Count(b.read("topic")+"\n", "\n") == b.rows("Login") })
	b.holds(`{event_type="Login"}`, b.rows("Login"))
}

func debugLogs(b *bench, blocks []string) {
	b.acme("--hours", "0", "--debug-logs", "3")
	b.sh(0, blocks[0])
	b.holds(`{source="apexlog"}`, 6)
	b.sh(0, strings.Replace(blocks[0], ",bob@acme.example", "", 1))
	b.holds(`{source="apexlog"}`, 6)
}
