package checkpoint

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseDocument(t *testing.T) {
	doc, err := ParseDocument([]byte(` {"b":"1","a":"","__fence_epoch__":"7",` + "\n" + `"c":"\u00e9\ud83d\ude00"} ` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for key, value := range doc.All() {
		got = append(got, key+"="+value)
	}
	if want := []string{"b=1", "a=", "__fence_epoch__=7", "c=é😀"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if epoch, err := doc.FenceEpoch(); epoch != 7 || err != nil {
		t.Errorf("epoch %d, %v", epoch, err)
	}
	if _, ok := doc.Get("d"); ok {
		t.Error("a key that is not there was found")
	}
}

// What the daemon writes is read as it is, and kept to the byte.
func TestDaemonsDocument(t *testing.T) {
	values := map[string]string{
		"pubsub:/event/LoginEventStream":  "AAAAAAAAB+o=",
		"eventlog_objects:LoginEvent":     `{"ids": ["a"], "last_ts": "2026-01-01T00:00:00.000+0000"}`,
		"eventlogfile:Login":              `{"ids": [["0AT1", "2026-06-30T01:00:00.000+0000"], "0ATlegacy"], "last_created": "2026-06-30T01:00:00.000+0000"}`,
		"apexlog":                         "2026-06-30T01:00:00.000+0000",
		"egress:budget":                   `{"date": "2026-07-01", "bytes": 5}`,
		"backfill:org=prod:Hourly:Login":  `{"done_ids": [], "last_created": ""}`,
		"org=prod:pubsub:/data/My__chn":   "AAAAAAAAB+o=",
		"__fence_epoch__":                 "12",
		"org=é<>&\u2028:pubsub:/event/\"": "\\",
	}
	var doc Document
	for key, value := range values {
		doc.Set(key, value)
	}
	again, err := ParseDocument(doc.Bytes())
	if err != nil || !again.Equal(doc) {
		t.Fatalf("written and read again: %v, %v", again, err)
	}
	for key, value := range again.All() {
		if values[key] != value {
			t.Errorf("%s: %q, want %q", key, value, values[key])
		}
	}
	if string(again.Bytes()) != string(doc.Bytes()) {
		t.Error("writing what was read changes it")
	}
}

func TestNoDocument(t *testing.T) {
	tests := []struct{ in, want string }{
		{"[]", "not a JSON object"},
		{"null", "not a JSON object"},
		{`"text"`, "not a JSON object"},
		{`{"a":"1"`, "ends inside the object"},
		{`{"a":"1",}`, "not JSON at byte"},
		{`{"a"`, "ends inside the object"},
		{`{"a":"1"} {}`, "text after the JSON object"},
		{`{"a":"1"}x`, "text after the JSON object"},
		{`{"a":1}`, `the value of "a" is not a string`},
		{`{"a":null}`, `the value of "a" is not a string`},
		{`{"good":"1","a/b":{"c":"d"}}`, `the value of "a/b" is not a string`},
		{`{"a":["1"]}`, `the value of "a" is not a string`},
		{`{"a":"1","b":"2","a":"1"}`, `the key "a" is there twice`},
		{"{\"a\":\"\xff\"}", "not UTF-8"},
		{"{\"a\":\"\n\"}", "not JSON at byte"},
		{"\x00\x00\x00", "not JSON at byte"},
		{"\xef\xbb\xbf{}", "not JSON at byte"},
	}
	for _, test := range tests {
		if _, err := ParseDocument([]byte(test.in)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.in, err, test.want)
		}
	}
	for _, in := range []string{"", " \n\t"} {
		if _, err := ParseDocument([]byte(in)); !errors.Is(err, ErrEmpty) {
			t.Errorf("%q: %v, want ErrEmpty", in, err)
		}
	}
}

// A document that is too large ends with what it is, before it takes memory.
func TestLargestDocument(t *testing.T) {
	var full Document
	for i := range maxMembers {
		full.Set(strconv.Itoa(i), "")
	}
	text := full.Bytes()
	if doc, err := ParseDocument(text); err != nil || !doc.Equal(full) {
		t.Errorf("as many keys as there may be: %d, %v", doc.Len(), err)
	}
	more := strings.TrimSuffix(string(text), "\n}\n") + `,"more":"","again":` // nobody reads on
	if _, err := ParseDocument([]byte(more)); !errors.Is(err, errMany) {
		t.Errorf("a key more: %v", err)
	}
	long := `{"k":"` + strings.Repeat("x", MaxBytes-len(`{"k":""}`)) + `"}`
	if _, err := ParseDocument([]byte(long)); err != nil {
		t.Errorf("as long as there may be: %v", err)
	}
	if _, err := ParseDocument([]byte(long + " ")); !errors.Is(err, errLong) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestDocumentEdits(t *testing.T) {
	var doc Document
	if string(doc.Bytes()) != "{}\n" {
		t.Errorf("an empty document is %q", doc.Bytes())
	}
	doc.Set("a", "1")
	doc.Set("b", "2")
	doc.Set("a", "3")
	clone := doc.Clone()
	if !doc.Delete("a") || doc.Delete("a") {
		t.Error("Delete is wrong about what was there")
	}
	doc.Set("a", "4")
	if got, want := string(doc.Bytes()), "{\n\"b\": \"2\",\n\"a\": \"4\"\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(clone.Bytes()), "{\n\"a\": \"3\",\n\"b\": \"2\"\n}\n"; got != want {
		t.Errorf("the clone is %q, want %q", got, want)
	}
	if doc.Equal(clone) || !clone.Equal(clone.Clone()) {
		t.Error("Equal is wrong")
	}
}

func TestRecordTime(t *testing.T) {
	var doc Document
	when := time.Date(2026, 7, 1, 20, 0, 0, 5, time.FixedZone("", 7200))
	doc.Set("k", "v")
	doc.SetRecordTime("k", when)
	if text, _ := doc.Get("__ts__:k"); text != "2026-07-01T18:00:00.000000005Z" {
		t.Errorf("stored as %s", text)
	}
	if got, ok := doc.RecordTime("k"); !ok || !got.Equal(when) {
		t.Errorf("got %v, %v", got, ok)
	}
	doc.ClearRecordTime("k")
	if _, ok := doc.RecordTime("k"); ok || doc.Len() != 1 {
		t.Error("the time is still there")
	}
}
