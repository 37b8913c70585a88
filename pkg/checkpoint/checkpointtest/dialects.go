package checkpointtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// NewS3 starts a Cloud that speaks as S3 does: an ETag is a hash of the
// content, a condition on an object that is not there is 404.
func NewS3(t testing.TB) *Cloud {
	fail := func(w http.ResponseWriter, status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, code)
	}
	return newCloud(t, dialect{
		gone: http.StatusNoContent,
		parse: func(r *http.Request) (call, bool) {
			c := headers(r)
			c.name = strings.TrimPrefix(r.URL.Path, "/")
			return c, true
		},
		gen: func(s stored) string { return s.etag },
		found: func(w http.ResponseWriter, s stored) {
			w.Header().Set("ETag", `"`+s.etag+`"`)
			_, _ = w.Write(s.data)
		},
		wrote: func(w http.ResponseWriter, s stored) { w.Header().Set("ETag", `"`+s.etag+`"`) },
		refuse: func(w http.ResponseWriter, o outcome) {
			if o == absent || o == absentToo {
				fail(w, http.StatusNotFound, "NoSuchKey")
				return
			}
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		},
	})
}

// NewAzure starts a Cloud that speaks as Azure does: a first write onto a blob
// that is there is 409, any other lost condition 412.
func NewAzure(t testing.TB) *Cloud {
	fail := func(w http.ResponseWriter, status int, code string) {
		w.Header().Set("x-ms-error-code", code)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, code)
	}
	etag := func(s stored) string { return "0x" + s.count }
	return newCloud(t, dialect{
		gone: http.StatusAccepted,
		parse: func(r *http.Request) (call, bool) {
			c := headers(r)
			c.name = strings.TrimPrefix(r.URL.Path, "/")
			return c, true
		},
		gen: etag,
		found: func(w http.ResponseWriter, s stored) {
			w.Header().Set("ETag", `"`+etag(s)+`"`)
			w.Header().Set("x-ms-blob-type", "BlockBlob")
			_, _ = w.Write(s.data)
		},
		wrote: func(w http.ResponseWriter, s stored) {
			w.Header().Set("ETag", `"`+etag(s)+`"`)
			w.WriteHeader(http.StatusCreated)
		},
		refuse: func(w http.ResponseWriter, o outcome) {
			switch o {
			case absent:
				fail(w, http.StatusNotFound, "BlobNotFound")
			case lostFirst:
				fail(w, http.StatusConflict, "BlobAlreadyExists")
			default:
				fail(w, http.StatusPreconditionFailed, "ConditionNotMet")
			}
		},
	})
}

// headers reads the conditions of those that put them there.
func headers(r *http.Request) call {
	var c call
	if match := r.Header.Get("If-Match"); match != "" {
		c.conditional, c.ifGen = true, strings.Trim(match, `"`)
	}
	if r.Header.Get("If-None-Match") == "*" {
		c.conditional = true
	}
	return c
}

// NewGCS starts a Cloud that speaks the JSON API of Google Cloud Storage.
func NewGCS(t testing.TB) *Cloud {
	return newCloud(t, dialect{
		gone:  http.StatusNoContent,
		parse: parseGCS,
		gen:   func(s stored) string { return s.count },
		found: func(w http.ResponseWriter, s stored) {
			w.Header().Set("X-Goog-Generation", s.count)
			_, _ = w.Write(s.data)
		},
		wrote: func(w http.ResponseWriter, s stored) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"kind":"storage#object","generation":%q}`, s.count)
		},
		refuse: func(w http.ResponseWriter, o outcome) {
			if o == absent {
				http.Error(w, "Not Found", http.StatusNotFound)
				return
			}
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `{"error":{"code":412,"message":"conditionNotMet"}}`)
		},
	})
}

func parseGCS(r *http.Request) (call, bool) {
	path, upload := strings.CutPrefix(r.URL.Path, "/upload")
	rest, ok := strings.CutPrefix(path, "/storage/v1/b/")
	bucket, key, ok2 := strings.Cut(rest, "/o")
	if !ok || !ok2 {
		return call{}, false
	}
	c := call{name: bucket + key}
	query := r.URL.Query()
	if upload {
		c.name = bucket + "/" + query.Get("name")
	}
	if gen := query.Get("ifGenerationMatch"); gen != "" {
		c.conditional = true
		if gen != "0" {
			c.ifGen = gen
		}
	}
	return c, upload == (r.Method == http.MethodPost)
}
