package tasktest

import (
	"strings"

	"sf2loki/scripts/testbed"
)

var storeTasks = []task{
	{"Move the positions to a bucket", []int{16}, toBucket},
	{"Several lanes and one document", []int{17}, oneDocument},
	{"Forget the positions of windows", nil, forgetWindows},
	{"The position of a topic was lost", []int{30}, lostPosition},
	{"A sandbox was refreshed", []int{31}, refreshed},
	{"Take over from the daemon, with a way back", []int{36}, takeOver},
	{"The login of one org fails", []int{12}, loginFails},
	{"Rotate a secret", []int{13}, rotate},
}

func toBucket(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	b.buckets()
	b.sh(0, live)
	b.sh(0, blocks[0], "PASS  compare-and-swap")
	b.sh(0, "ckpt list 's3://acme-sf/state/prod.json?region=eu-west-1'", "org=prod:eventlogfile:Login")
	// An old cron line is told where the document went.
	b.sh(76, live, "s3://bucket/state/prod.json")
}

func oneDocument(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4")
	b.buckets()
	b.sh(0, blocks[0], "org=prod:eventlogfile:Login ", "org=prod:eventlogfile:API ", "org=prod:eventlogfile:URI ")
	b.holds(`{event_type=~"Login|API|URI"}`, b.rows("Login")+b.rows("API")+b.rows("URI"))
}

func forgetWindows(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	for _, since := range []string{"2025-01-02", "2024-05-06"} {
		b.sh(0, "sf-pull elf --event-type Login --since "+since+" --until 2050-01-01 --resume /var/lib/sf2loki/prod.json | loki-push | ckpt commit /var/lib/sf2loki/prod.json")
	}
	b.sh(0, live)
	b.sh(0, blocks[0])
	b.sh(0, blocks[0]) // there is nothing left to do
	text := b.sh(0, "ckpt list /var/lib/sf2loki/prod.json", "org=prod:eventlogfile:Login", "window=2024-05-06").Stdout
	if strings.Contains(text, "window=2025") {
		b.T.Errorf("left: %s", text)
	}
}

const liveTopic = `sf-pull pubsub --topic /event/LoginEventStream --resume /var/lib/sf2loki/rt.json |
	loki-push --spool /var/spool/sf2loki/prod --spool-file-bytes 1 | ckpt commit /var/lib/sf2loki/rt.json`

func lostPosition(b *bench, blocks []string) {
	b.acme("--hours", "0", "--events", "10")
	b.Set("SF_PULL_IDLE_EXIT=500ms")
	b.sh(0, liveTopic)
	b.control("bus-reset", "{}")
	b.control("bus-publish", `{"bus":{"topic":"/event/LoginEventStream","count":5,"first":50}}`)
	b.sh(0, liveTopic)
	b.sh(0, blocks[0], "source_gap", "/event/LoginEventStream")
	b.holds(`{event_type="LoginEventStream"}`, 15)
}

func refreshed(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	b.sh(0, live)
	// The document of the org as it was: of another id.
	b.sh(0, `sed -i "s/$(cut -c 1-15 org/org-id)/00Dxx0000009zzz/" /var/lib/sf2loki/prod.json`)
	b.sh(78, live, "the position is of org \"00Dxx0000009zzz")
	b.sh(0, blocks[0])
	b.sh(0, live)
	b.holds(`{event_type="Login"}`, b.rows("Login"))
}

func takeOver(b *bench, blocks []string) {
	b.acme("--hours", "5", "--rows", "4", "--types", "Login")
	// The daemon's positions of event log files are times of creation.
	at := b.sh(0, "sf-pull list --interval Hourly | jq -r .created | sort | head -n 2 | tail -n 1").Stdout
	b.Write("daemon.json", `{"eventlogfile:Login":"`+strings.TrimSpace(at)+`"}`+"\n")
	b.sh(0, blocks[0])
	b.sh(0, "ckpt list /var/lib/sf2loki/prod.json", "org=prod:eventlogfile:Login")
	b.sh(0, "export SF_PULL_REPORT=first; "+live)
	if n := b.account("first", "written"); n == 0 || n > b.rows("Login") {
		b.T.Errorf("%d rows were read", n)
	}
	if text := b.read("backup/daemon.json"); text != b.read("daemon.json") {
		b.T.Errorf("the copy: %s", text)
	}
	b.sh(0, blocks[1])
	if text := b.read("daemon.json"); !strings.Contains(text, `"org=prod:eventlogfile:Login"`) || text == b.read("backup/daemon.json") {
		b.T.Errorf("the way back: %s", text)
	}
}

func loginFails(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	good := b.read("etc/sf2loki/prod.pem")
	b.sh(0, "openssl genrsa -out /etc/sf2loki/prod.pem 2048 2>/dev/null")
	b.sh(77, blocks[0], "FAIL  login:", "invalid assertion", "the private key does not fit the app's certificate")
	b.sh(77, live, "invalid assertion")
	b.Write("etc/sf2loki/prod.pem", good)
	b.sh(0, live)
	b.holds(`{event_type="Login"}`, b.rows("Login"))
}

func rotate(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	b.Write("etc/sf2loki/loki.token", "the old one\n")
	b.Write("new.token", "secret\n")
	end := b.begin("{ " + live + "; } 2>refusals; echo $? >ended")
	testbed.Eventually(b.T, "the old token is refused", func() bool { return strings.Contains(b.read("refusals"), "401") })
	b.sh(0, blocks[0])
	testbed.Eventually(b.T, "the lane has ended", func() bool { return b.read("ended") != "" })
	end()
	if got := b.read("ended"); got != "0" {
		b.T.Errorf("status %s: %s", got, b.read("refusals"))
	}
	b.holds(`{event_type="Login"}`, b.rows("Login"))
}
