// Package object makes a checkpoint store of one object in a bucket: what the
// packages of the vendors have in common. Those only know how to get, put and
// delete an object. See the section on stores of ckpt(1).
package object

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

// patience is how long one request may take. A document is small, and who
// waits for it would rather try again.
const patience = 15 * time.Second

// Bucket is what a vendor's package knows. Its errors carry their exit status.
type Bucket interface {
	// Get reads an object: checkpoint.ErrNotFound when there is none.
	Get(ctx context.Context, key string) ([]byte, checkpoint.Generation, error)
	// Put writes an object if its generation is ifGen, empty for none:
	// checkpoint.ErrConflict when it is another.
	Put(ctx context.Context, key string, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error)
	// Delete removes an object. One that is not there is no error.
	Delete(ctx context.Context, key string) error
	// Nobody is a generation that no object ever has.
	Nobody() checkpoint.Generation
}

// Store is a checkpoint.Store in one object.
type Store struct {
	name   string // as the user wrote it
	bucket Bucket
	key    string
}

// New returns the store in the object key of bucket. name is what messages
// call it.
func New(name string, bucket Bucket, key string) *Store {
	return &Store{name: name, bucket: bucket, key: key}
}

// String names the store.
func (s *Store) String() string { return s.name }

// Get reads the document.
func (s *Store) Get(ctx context.Context) ([]byte, checkpoint.Generation, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	data, gen, err := s.bucket.Get(ctx, s.key)
	switch {
	case err != nil:
		return nil, "", err
	case gen == "":
		return nil, "", sysexits.Errorf(sysexits.Config, "the store does not tell the generation of what it holds: nothing can be written safely")
	}
	return data, gen, nil
}

// Put replaces the document, if it still is ifGen.
func (s *Store) Put(ctx context.Context, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	gen, err := s.bucket.Put(ctx, s.key, data, ifGen)
	switch {
	case err != nil:
		return "", err
	case gen == "":
		// It was written, as far as we know; reading tells.
		return "", sysexits.Errorf(sysexits.IOErr, "the store did not tell the generation of what it wrote")
	}
	return gen, nil
}

// Prepare proves that the document may be written, and that the store honours
// conditions: a write under a generation that no object has must be refused.
// It carries what is there already, so that even a store that takes it is left
// as it was.
func (s *Store) Prepare(ctx context.Context) error {
	data, _, err := s.Get(ctx)
	if errors.Is(err, checkpoint.ErrNotFound) {
		data, err = []byte("{}\n"), nil
	}
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, data, s.bucket.Nobody())
	switch {
	case errors.Is(err, checkpoint.ErrConflict):
		return nil
	case err == nil:
		return sysexits.Errorf(sysexits.Config, "the store ignores conditions of writes: two writers would overwrite each other")
	}
	return err
}

// Inspect looks at the object.
func (s *Store) Inspect(ctx context.Context) []checkpoint.Finding {
	const check = "object"
	_, _, err := s.Get(ctx)
	f := checkpoint.Passed(check, s.name+" can be read")
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		f = checkpoint.Passed(check, s.name+" does not exist yet; the first commit makes it")
	case err != nil:
		f = checkpoint.Failed(check, err, "check the URL, the credentials and what they may do: read and write this object")
	}
	return []checkpoint.Finding{f}
}

// Scratch makes a store beside the document for a doctor to write into.
func (s *Store) Scratch(context.Context) (checkpoint.Store, func(context.Context) error, error) {
	suffix := ".doctor-" + rand.Text()
	key := s.key + suffix
	scratch := New(s.name+suffix, s.bucket, key)
	remove := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return s.bucket.Delete(ctx, key)
	}
	return scratch, remove, nil
}

// ReadAll reads the body of an answer. What breaks off is worth another try.
func ReadAll(body io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, checkpoint.MaxBytes+1))
	switch {
	case err != nil:
		return nil, sysexits.Wrap(sysexits.Unavailable, fmt.Errorf("the answer broke off: %w", err))
	case len(data) > checkpoint.MaxBytes:
		return nil, sysexits.Errorf(sysexits.Config, "larger than %d bytes: that is no checkpoint document", checkpoint.MaxBytes)
	}
	return data, nil
}

// Code is the exit status of an HTTP status that is no answer to a condition.
func Code(status int) sysexits.Code {
	switch {
	case status == 401 || status == 403:
		return sysexits.NoPerm
	case status == 501:
		return sysexits.Config
	case status == 408 || status == 429 || status >= 500:
		return sysexits.Unavailable
	}
	return sysexits.Config
}

// Parse reads a URL of the form scheme://bucket/key, with those parameters
// alone that are named.
func Parse(loc checkpoint.Location, what string, params ...string) (bucket, key string, query url.Values, err error) {
	u := loc.URL
	key = strings.TrimPrefix(u.Path, "/")
	if u.Host == "" || key == "" || strings.HasSuffix(key, "/") || u.Fragment != "" {
		return "", "", nil, sysexits.Errorf(sysexits.Config, "store %s: not of the form %s://%s", loc, loc.Scheme, what)
	}
	query, err = url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", "", nil, sysexits.Errorf(sysexits.Config, "store %s: %w", loc, err)
	}
	for name, values := range query {
		if !slices.Contains(params, name) {
			return "", "", nil, sysexits.Errorf(sysexits.Config, "store %s://%s%s: unknown parameter %q%s", loc.Scheme, u.Host, u.EscapedPath(), name, known(params)) // a signature perhaps
		}
		if len(values) > 1 || values[0] == "" {
			return "", "", nil, sysexits.Errorf(sysexits.Config, "store %s: the parameter %q has to have one value", loc, name)
		}
	}
	return u.Host, key, query, nil
}

func known(params []string) string {
	if len(params) == 0 {
		return ", there are none"
	}
	return "; known are " + strings.Join(params, ", ")
}
