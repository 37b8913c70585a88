package object_test

import (
	"net/url"
	"testing"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/object"
)

// A location is a path, or a URL without a password whose parts are those that
// it was made of.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"/var/lib/state.json", "state.json", "file:///a/b", "file://localhost/a", "file://host/a", "file:///a?x", "s3://b/k", "s3://b/dir/k%20k?region=x&endpoint=http://h", "s3://u:p@b/k",
		"s3://b/", "s3:///k", "s3://b/k?region=", "s3://b/k?a=b", "s3://b/k?region=x&region=y", "s3://b/k#f", "s3://b/%zz", "://", "", "a\x00b", "gs://b/k?%zz", "s3://b\n/k", "s3://b/k?x=\x01",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		loc, err := checkpoint.ParseLocation(text)
		if err != nil {
			return
		}
		if loc.String() != text || (loc.URL == nil || loc.Scheme == "file") != (loc.Path != "") || loc.URL == nil && loc.Path != text {
			t.Fatalf("%q is %+v", text, loc)
		}
		if loc.URL == nil || loc.Scheme == "file" || loc.Scheme == "" { // of no kind of store
			return
		}
		bucket, key, query, err := object.Parse(loc, "BUCKET/KEY", "region", "endpoint")
		if err != nil {
			return
		}
		made := url.URL{Scheme: loc.Scheme, Host: bucket, Path: "/" + key, RawQuery: query.Encode()}
		loc, err = checkpoint.ParseLocation(made.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, made.String(), err)
		}
		b, k, q, err := object.Parse(loc, "BUCKET/KEY", "region", "endpoint")
		if err != nil || b != bucket || k != key || q.Encode() != query.Encode() {
			t.Fatalf("%q is %q %q %q, and then %q %q %q, %v", text, bucket, key, query, b, k, q, err)
		}
	})
}
