package checkpointtest

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
)

// Cloud is a bucket behind HTTP that speaks one vendor's dialect. It honours
// conditions as that vendor's service does, and breaks on demand.
type Cloud struct {
	URL string // of the server

	dialect dialect

	mu       sync.Mutex
	fault    func(r *http.Request) Trouble
	deaf     bool
	objects  map[string]stored
	writes   int
	requests map[string]int
}

type stored struct {
	data  []byte
	etag  string // a hash of the content
	count string // a number that never comes again
}

// Trouble is what goes wrong with one request. The zero Trouble is none.
type Trouble struct {
	Status int               // answered instead of the truth
	Header map[string]string // of that answer
	Body   string
	Done   bool // the request takes effect all the same
	Cut    bool // the connection breaks, in the middle of the body if there is one
	Hang   bool // nothing is answered before the client gives up
}

// outcome is what a request came to.
type outcome int

const (
	fine outcome = iota
	absent
	lost      // the condition names a generation that is not the present one
	lostFirst // the condition wants nothing there, and something is
	absentToo // the condition names a generation, and nothing is there
)

// call is a request as all dialects have it.
type call struct {
	name        string // bucket and key
	conditional bool
	ifGen       string // "" with conditional: nothing may be there
}

type dialect struct {
	parse  func(r *http.Request) (call, bool)
	gone   int // status of a DELETE
	gen    func(s stored) string
	found  func(w http.ResponseWriter, s stored)
	wrote  func(w http.ResponseWriter, s stored)
	refuse func(w http.ResponseWriter, o outcome)
}

func newCloud(t testing.TB, d dialect) *Cloud {
	t.Helper()
	c := &Cloud{dialect: d, objects: map[string]stored{}, requests: map[string]int{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Break has fn asked before every request from now on; nil ends it.
func (c *Cloud) Break(fn func(r *http.Request) Trouble) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fn
}

// Deafen makes the server ignore conditions, as some do that call themselves
// compatible.
func (c *Cloud) Deafen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = true
}

// Set puts an object there, by bucket/key, whatever is there now.
func (c *Cloud) Set(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(name, []byte(text))
}

// Remove takes an object away.
func (c *Cloud) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, name)
}

// Object tells what is stored.
func (c *Cloud) Object(name string) (text string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.objects[name]
	return string(s.data), ok
}

// Names is how many objects there are.
func (c *Cloud) Names() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.objects)
}

// Requests is how many there were of method.
func (c *Cloud) Requests(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[method]
}

func (c *Cloud) set(name string, data []byte) stored {
	c.writes++
	sum := md5.Sum(data)
	s := stored{data: data, etag: hex.EncodeToString(sum[:]), count: strconv.Itoa(1700000000000000 + c.writes)}
	c.objects[name] = s
	return s
}

// ServeHTTP answers one request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	trouble := c.begin(r)
	if trouble.Hang {
		<-r.Context().Done()
		return
	}
	if trouble.Status == 0 && !trouble.Cut {
		c.answer(w, r, body)
		return
	}
	real := httptest.NewRecorder()
	if trouble.Done || trouble.Cut && r.Method == http.MethodGet {
		c.answer(real, r, body)
	}
	if trouble.Cut {
		cut(w, real)
		return
	}
	for name, value := range trouble.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(trouble.Status)
	_, _ = io.WriteString(w, trouble.Body) // the client may have gone
}

// cut promises all of the answer and breaks off halfway.
func cut(w http.ResponseWriter, real *httptest.ResponseRecorder) {
	if text := real.Body.String(); text != "" {
		for name, values := range real.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = io.WriteString(w, text[:len(text)/2])
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

func (c *Cloud) begin(r *http.Request) Trouble {
	c.mu.Lock()
	c.requests[r.Method]++
	fault := c.fault
	c.mu.Unlock()
	if fault == nil {
		return Trouble{}
	}
	return fault(r)
}

func (c *Cloud) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	d := c.dialect
	request, ok := d.parse(r)
	if !ok {
		http.Error(w, fmt.Sprintf("the double does not know %s %s", r.Method, r.URL), http.StatusNotImplemented)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, there := c.objects[request.name]
	switch r.Method {
	case http.MethodGet:
		if !there {
			d.refuse(w, absent)
			return
		}
		d.found(w, now)
	case http.MethodDelete:
		if !there {
			d.refuse(w, absent)
			return
		}
		delete(c.objects, request.name)
		w.WriteHeader(d.gone)
	default:
		if o := c.check(request, now, there); o != fine {
			d.refuse(w, o)
			return
		}
		d.wrote(w, c.set(request.name, body))
	}
}

func (c *Cloud) check(request call, now stored, there bool) outcome {
	switch {
	case c.deaf || !request.conditional:
		return fine
	case request.ifGen == "" && there:
		return lostFirst
	case request.ifGen == "":
		return fine
	case !there:
		return absentToo
	case request.ifGen != c.dialect.gen(now):
		return lost
	}
	return fine
}
