package pipetest

import (
	"crypto/tls"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
)

// misuse is a mistake, and what its user is told.
type misuse struct {
	name, script string
	prepare      func(*day)
	status       int
	says         string // what the one line on standard error matches
}

// tiny runs a command with a file system of 64 KiB in ./tiny, which is gone
// when the command is.
func tiny(command string) string {
	flags := "-m"
	if os.Geteuid() != 0 {
		flags = "-rm"
	}
	return `mkdir -p tiny; unshare ` + flags + ` sh -c 'mount -t tmpfs -o size=64k none tiny && exec "$@"' tiny ` + command
}

const (
	onePull   = "sf-pull elf --file a.csv"
	orgPull   = "sf-pull elf --event-type Login"
	onePush   = `loki-push --url "$LOKI"`
	oneCommit = "ckpt commit state.json"
)

var misuses = []misuse{
	// What is missing or misspelt.
	{"no source", "sf-pull", nil, 64, `^sf-pull: a subcommand is needed`},
	{"a source that is none", "sf-pull elfs", nil, 64, `^sf-pull: .*"elfs"`},
	{"no event type", "sf-pull elf", nil, 64, `^sf-pull: .*--event-type`},
	{"no client id", "unset SF_PULL_CLIENT_ID; " + orgPull, nil, 64, `^sf-pull: .*--client-id`},
	{"no key", "unset SF_PULL_PRIVATE_KEY_FILE; " + orgPull, nil, 64, `^sf-pull: .*--private-key-file`},
	{"no user", "unset SF_PULL_USERNAME; " + orgPull, nil, 64, `^sf-pull: .*--username`},
	{"no secret", orgPull + " --auth client-credentials", nil, 64, `^sf-pull: .*--client-secret-file`},
	{"a secret that is blank", "SF_PULL_PRIVATE_KEY_FILE= " + orgPull, nil, 78, `^sf-pull: .*SF_PULL_PRIVATE_KEY_FILE`},
	{"no URL of Loki", "loki-push <records", nil, 64, `^loki-push: .*--url`},
	{"a URL that is none", "loki-push --url nowhere <records", nil, 78, `^loki-push: the URL of Loki must begin with http`},
	{"no store", "ckpt commit <acks", nil, 64, `^ckpt: .*(store|STORE)`},
	{"no command to replay with", "dl-replay run --spool dead", nil, 64, `^dl-replay: no command`},
	{"a flag that is none", onePush + " --flush 1s <records", nil, 64, `^loki-push: .*-flush`},
	{"a size that is none", onePush + " --batch-bytes lots <records", nil, 64, `^loki-push: .*batch-bytes`},
	{"a time that is none", orgPull + " --since yesterday", nil, 64, `^sf-pull: .*since`},
	{"a subcommand that is none", "ckpt comit state.json <acks", nil, 64, `^ckpt: .*"comit"`},
	{"a document with a flag that is none", orgPull + " --config conf", func(d *day) { d.Write("conf", "event-typ Login\n") }, 64, `^sf-pull: .*event-typ`},

	// What cannot be read.
	{"no file", "sf-pull elf --file b.csv", nil, 78, `^sf-pull: .*b\.csv`},
	{"a directory for a file", "sf-pull elf --file .", nil, 78, `^sf-pull: .*directory`},
	{"no configuration file", orgPull + " --config nowhere", nil, 78, `^sf-pull: .*nowhere`},
	{"no key file", "SF_PULL_PRIVATE_KEY_FILE=nowhere " + orgPull, nil, 78, `^sf-pull: .*nowhere`},
	{"no password file", onePush + " --user u --password-file nowhere <records", nil, 78, `^loki-push: .*nowhere`},
	{"an empty token", onePush + " --token-file empty <records", func(d *day) { d.Write("empty", "\n") }, 78, `^loki-push: .*empty`},
	{"a document that is none", orgPull + " --resume a.csv", nil, 78, `^sf-pull: .*a\.csv`},
	{"no document from the export", "true | " + orgPull + " --resume -", nil, 65, `^sf-pull: .*empty`},
	{"a document of a newer release", onePull + " --resume newer.json", func(d *day) {
		d.Write("newer.json", `{"file:a.csv":"{\"v\":2,\"size\":1}"}`)
	}, 78, `^sf-pull: .*version 2`},

	// What Salesforce refuses.
	{"a key that is none", orgPull, func(d *day) { d.Write("key.pem", "no key\n") }, 78, `^sf-pull: .*key`},
	{"the key of another app", orgPull, func(d *day) { d.Write("key.pem", otherKey()) }, 77, `^sf-pull: .*invalid_grant`},
	{"an app that is none", orgPull + " --client-id nobody", nil, 77, `^sf-pull: .*invalid_client`},
	{"a wrong secret", orgPull + " --auth client-credentials", func(d *day) {
		d.set("SF_PULL_CLIENT_SECRET_FILE=" + d.Write("secret", "wrong\n"))
	}, 77, `^sf-pull: .*invalid_client`},
	{"a session that has expired, and every other", orgPull, func(d *day) {
		d.org.Fault("/query", sftest.Fault{Fixture: "err_401_invalid_session.json", Times: -1})
	}, 77, `^sf-pull: .*INVALID_SESSION_ID`},
	{"no right to log files", orgPull, func(d *day) {
		d.org.Fault("/query", sftest.Fault{Fixture: "err_403_forbidden_elf.json", Times: -1})
	}, 77, `^sf-pull: `},
	{"another org", orgPull + " --org-id 00D000000000002AAA", nil, 78, `^sf-pull: .*00D000000000002`},
	{"a page in place of a token", orgPull, func(d *day) {
		d.org.Fault("/oauth2/token", sftest.Fault{HTML: true, Times: -1})
	}, 75, `^sf-pull: .*not a token`},
	{"a page in place of a list", orgPull, func(d *day) {
		d.org.Fault("/query", sftest.Fault{HTML: true, Times: -1})
	}, 75, `^sf-pull: .*aintenance`},
	{"a page in place of a file's rows", orgPull, func(d *day) {
		d.org.Fault("/LogFile", sftest.Fault{HTML: true, Times: -1})
	}, 75, `^sf-pull: `},
	{"the day's calls are used up", orgPull, func(d *day) {
		d.org.Fault("/query", sftest.Fault{Fixture: "err_403_request_limit.json", Times: -1})
	}, 75, `^sf-pull: .*REQUEST_LIMIT_EXCEEDED`},

	// What Loki refuses. It is tried again for --give-up, here not long, and by
	// default a minute; that is logged.
	{"no tenant", onePush + " --give-up 1s <records", func(d *day) {
		d.set("LOKI=" + loki(d.T, lokitest.Config{MultiTenant: true}).URL)
	}, 77, `^loki-push: .*401.*no org id`},
	{"a wrong token", onePush + " --give-up 1s --token-file token <records", func(d *day) {
		d.Write("token", "wrong\n")
		d.set("LOKI=" + loki(d.T, lokitest.Config{Tokens: []string{"right"}}).URL)
	}, 77, `^loki-push: .*401`},
	{"a wrong path", onePush + "/wrong --give-up 1s <records", nil, 78, `^loki-push: .*404`},
	{"a page in place of Loki", onePush + " --give-up 1s <records", func(d *day) {
		d.srv.Script(func(int, lokitest.Request) *lokitest.Answer {
			return &lokitest.Answer{Status: 200, Body: "<html><body>Sign in</body></html>"}
		})
	}, 78, `^loki-push: .*Sign in`},
	{"a letter of another tenant", onePush + " --tenant 7 <letter", func(d *day) {
		d.Write("letter", `{"ts":"`+time.Now().UTC().Format(time.RFC3339)+`","labels":{"a":"b"},"line":"x","reason":"bad_request","dead_letter":{"v":1,"tenant":"8"}}`+"\n")
	}, 78, `^loki-push: .*tenant.*8`},
	{"a certificate that nobody knows", onePush + " --give-up 1s <records", func(d *day) {
		d.set("LOKI=" + loki(d.T, lokitest.Config{TLS: &tls.Config{}}).URL)
	}, 78, `^loki-push: .*certificate`},

	// Streams that are none.
	{"a record that is none", `{ head -n 5 records; echo "{]"; } | ` + onePush, nil, 65, `^loki-push: .*line 6\b`},
	{"text in place of records", `echo hello | ` + onePush, nil, 65, `^loki-push: .*line 1\b`},
	{"an acknowledgement that is none", `printf '%s\n' '{"checkpoint_key":"file:x","checkpoint_value":"1"}' '["a"]' | ` + oneCommit, nil, 65, `^ckpt: .*line 2\b`},
	{"a torn record", `head -c 3000 records | ` + onePush, nil, 74, `^loki-push: .*(torn|ends|breaks)`},
	{"a page in place of a file", "sf-pull elf --file page.csv", func(d *day) { d.Write("page.csv", "<html></html>") }, 65, `^sf-pull: .*HTML`},
	{"an error in place of a file", "sf-pull elf --file page.csv", func(d *day) { d.Write("page.csv", `[{"errorCode":"NOT_FOUND"}]`) }, 65, `^sf-pull: .*JSON`},

	// What cannot be written.
	{"records to nobody", onePull + " >&-", nil, 74, `^sf-pull: .*(stdout|standard output)`},
	{"acknowledgements to nobody", onePush + " <records >&-", nil, 74, `^loki-push: .*(stdout|standard output)`},
	{"records to a full disk", onePull + " >/dev/full", nil, 74, `^sf-pull: .*no space`},
	{"acknowledgements to a full disk", onePush + " <records >/dev/full", nil, 74, `^loki-push: .*no space`},
	{"no directory for files", orgPull + " --tmpdir nowhere", nil, 78, `^sf-pull: .*nowhere`},
	{"a full directory for files", tiny(orgPull + " --tmpdir tiny"), func(d *day) { d.hour(5, 2000, 0, time.Hour) }, 74, `^sf-pull: .*no space`},
	{"a full disk for the document", tiny("sh -c '" + strings.Replace(oneCommit, "state.json", "tiny/state.json", 1) + " <acks'"), func(d *day) {
		d.Write("acks", `{"checkpoint_key":"k","checkpoint_value":"`+strings.Repeat("x", 100<<10)+"\"}\n")
	}, 74, `^ckpt: .*no space`},
	{"a full spool, and the order to stop", tiny("sh -c '" + onePush + " --max-age 1h --on-dead-letter-error stop --spool tiny/dead <records'"), func(d *day) { d.recent("a.csv", 400) }, 74, `^loki-push: .*no space`},
	{"a spool that cannot be made", onePush + " --spool a.csv/dead <records", nil, 73, `^loki-push: .*a\.csv`},
	{"no directory for the document", "ckpt commit nowhere/state.json <acks", nil, 73, `^ckpt: .*nowhere`},
}

// Each mistake is told in one line, and by the status.
func TestMisuse(t *testing.T) {
	for _, tt := range misuses {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDay(t)
			d.Limit = 2 * time.Minute
			d.set("SF_PULL_LOG_LEVEL=error", "LOKI_PUSH_LOG_LEVEL=error", "CKPT_LOG_LEVEL=error", "DL_REPLAY_LOG_LEVEL=error")
			d.hour(5, 20, 0, time.Hour)
			d.recent("a.csv", 40)
			d.Write("acks", `{"checkpoint_key":"file:x","checkpoint_value":"1"}`+"\n")
			if tt.prepare != nil {
				tt.prepare(d)
			}
			d.OK(onePull + " > records")
			r := d.Run(tt.script)
			var said []string
			for line := range strings.Lines(r.Stderr) {
				hint := regexp.MustCompile(`^[a-z-]+: hint: `).MatchString(line)
				again := strings.Contains(tt.script, "--give-up") && strings.Contains(line, "it is tried again")
				if !hint && !again {
					said = append(said, line)
				}
			}
			if r.Status != tt.status || len(said) != 1 || !regexp.MustCompile(tt.says).MatchString(said[0]) {
				t.Errorf("want %d and one line like %s: %v", tt.status, tt.says, r)
			}
			if strings.Contains(r.Stdout+r.Stderr, "PRIVATE KEY") || strings.Contains(r.Stderr, "wrong\n") {
				t.Errorf("a secret is told: %v", r)
			}
		})
	}
}
