package object_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/checkpoint/object"
	"sf2loki/pkg/sysexits"
)

// shelf is a bucket in memory that can be less than one should be.
type shelf struct {
	objects  map[string]*checkpointtest.Memory
	mute     bool // it tells no generations
	careless bool // it ignores conditions
	err      error
}

func (s *shelf) at(key string) *checkpointtest.Memory {
	if s.objects == nil {
		s.objects = map[string]*checkpointtest.Memory{}
	}
	if s.objects[key] == nil {
		s.objects[key] = &checkpointtest.Memory{}
	}
	return s.objects[key]
}

func (s *shelf) Get(ctx context.Context, key string) ([]byte, checkpoint.Generation, error) {
	if s.err != nil {
		return nil, "", s.err
	}
	data, gen, err := s.at(key).Get(ctx)
	if s.mute {
		gen = ""
	}
	return data, gen, err
}

func (s *shelf) Put(ctx context.Context, key string, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	if s.err != nil {
		return "", s.err
	}
	if s.careless {
		_, ifGen, _ = s.at(key).Get(ctx)
	}
	gen, err := s.at(key).Put(ctx, data, ifGen)
	if s.mute {
		gen = ""
	}
	return gen, err
}

func (s *shelf) Delete(_ context.Context, key string) error {
	delete(s.objects, key)
	return s.err
}

func (*shelf) Nobody() checkpoint.Generation { return "0" }

func TestConformance(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) func() checkpoint.Store {
		b := &shelf{}
		return func() checkpoint.Store { return object.New("s3://b/k", b, "k") }
	})
}

// Before anything is written, a store proves that it refuses what two writers
// would overwrite, and is left as it was even when it does not.
func TestPrepare(t *testing.T) {
	down := sysexits.Errorf(sysexits.Unavailable, "no answer")
	for name, tt := range map[string]struct {
		bucket shelf
		want   sysexits.Code
	}{
		"as it should be":      {shelf{}, sysexits.OK},
		"ignores conditions":   {shelf{careless: true}, sysexits.Config},
		"tells no generations": {shelf{mute: true}, sysexits.Config},
		"does not answer":      {shelf{err: down}, sysexits.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			b := &tt.bucket
			if _, err := b.at("k").Put(t.Context(), []byte(`{"k":"1"}`), ""); err != nil {
				t.Fatal(err)
			}
			if err := object.New("s3://b/k", b, "k").Prepare(t.Context()); sysexits.Of(err) != tt.want {
				t.Errorf("status %d, %v; want %d", sysexits.Of(err), err, tt.want)
			}
			if data, _, err := b.at("k").Get(t.Context()); string(data) != `{"k":"1"}` {
				t.Errorf("it holds %q, %v", data, err)
			}
		})
	}
	b := &shelf{}
	if err := object.New("s3://b/k", b, "k").Prepare(t.Context()); err != nil {
		t.Errorf("without a document: %v", err)
	}
	if _, _, err := b.at("k").Get(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a look has made a document: %v", err)
	}
}

// A write whose generation is not told may have happened, so it is no success
// and no conflict.
func TestWriteWithoutGeneration(t *testing.T) {
	store := object.New("s3://b/k", &shelf{mute: true}, "k")
	if _, err := store.Put(t.Context(), []byte("{}"), ""); sysexits.Of(err) != sysexits.IOErr || errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

func TestInspect(t *testing.T) {
	b := &shelf{}
	store := object.New("s3://b/k", b, "k")
	look := func(level checkpoint.Level, text string, code sysexits.Code) {
		t.Helper()
		found := store.Inspect(t.Context())
		if len(found) != 1 || found[0].Level != level || !strings.Contains(found[0].Detail, text) || found[0].Code != code {
			t.Errorf("found %+v", found)
		}
	}
	look(checkpoint.Pass, "does not exist yet", sysexits.OK)
	if _, err := store.Put(t.Context(), []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	look(checkpoint.Pass, "s3://b/k can be read", sysexits.OK)
	b.err = sysexits.Errorf(sysexits.NoPerm, "not yours")
	look(checkpoint.Fail, "not yours", sysexits.NoPerm)
}

// A doctor writes beside the document, and nothing of that stays.
func TestScratch(t *testing.T) {
	b := &shelf{}
	store := object.New("s3://b/k", b, "k")
	scratch, remove, err := store.Scratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scratch.Put(t.Context(), []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Get(t.Context()); !errors.Is(err, checkpoint.ErrNotFound) || !strings.HasPrefix(scratch.String(), "s3://b/k.doctor-") {
		t.Errorf("%s touches the document: %v", scratch, err)
	}
	delete(b.objects, "k")
	if err := remove(t.Context()); err != nil || len(b.objects) != 0 {
		t.Errorf("left %v, %v", b.objects, err)
	}
}

// An answer that breaks off is worth another try; one without end is not.
func TestReadAll(t *testing.T) {
	if data, err := object.ReadAll(strings.NewReader("{}")); string(data) != "{}" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	_, err := object.ReadAll(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if sysexits.Of(err) != sysexits.Unavailable || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an answer that breaks off: %v", err)
	}
	if _, err := object.ReadAll(endless{}); sysexits.Of(err) != sysexits.Config || !strings.Contains(err.Error(), "no checkpoint document") {
		t.Errorf("an answer without end: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestCode(t *testing.T) {
	for want, statuses := range map[sysexits.Code][]int{
		sysexits.NoPerm: {401, 403}, sysexits.Unavailable: {408, 429, 500, 503}, sysexits.Config: {301, 400, 404, 501},
	} {
		for _, status := range statuses {
			if got := object.Code(status); got != want {
				t.Errorf("%d is %d, want %d", status, got, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	location := func(text string) checkpoint.Location {
		t.Helper()
		loc, err := checkpoint.ParseLocation(text)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
	bucket, key, query, err := object.Parse(location("s3://b/dir/k%20k?region=x"), "bucket/key", "region", "endpoint")
	if bucket != "b" || key != "dir/k k" || !reflect.DeepEqual(map[string][]string(query), map[string][]string{"region": {"x"}}) || err != nil {
		t.Errorf("%q, %q, %v, %v", bucket, key, query, err)
	}
	for text, want := range map[string]string{
		"s3://b":                     "not of the form s3://bucket/key",
		"s3://b/":                    "not of the form",
		"s3://b/dir/":                "not of the form",
		"s3:///k":                    "not of the form",
		"s3://b/k#x":                 "not of the form",
		"s3://b/k?region":            "has to have one value",
		"s3://b/k?region=x&region=y": "has to have one value",
		"s3://b/k?regoin=x":          `store s3://b/k: unknown parameter "regoin"; known are region`,
		"s3://b/k?region=%zz":        "invalid URL escape",
	} {
		if _, _, _, err := object.Parse(location(text), "bucket/key", "region"); sysexits.Of(err) != sysexits.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, _, _, err := object.Parse(location("gs://b/k?region=x"), "bucket/key"); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("a parameter where there are none: %v", err)
	}
}
