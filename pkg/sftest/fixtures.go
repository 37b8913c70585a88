package sftest

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

//go:embed fixtures/rest fixtures/avro
var fixtureFiles embed.FS

// Fixture is a stored answer of a real org's form.
type Fixture struct {
	File    string            `json:"file"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Request string            `json:"request"`
	Note    string            `json:"note"`
	Body    []byte            `json:"-"`
}

var fixtureIndex = sync.OnceValue(func() []Fixture {
	var list []Fixture
	if err := json.Unmarshal(fixtureBody("index.json"), &list); err != nil {
		panic(fmt.Sprintf("sftest: fixtures/rest/index.json: %v", err))
	}
	for i := range list {
		list[i].Body = fixtureBody(list[i].File)
	}
	return list
})

// Fixtures gives all stored answers.
func Fixtures() []Fixture { return fixtureIndex() }

func fixtureBody(name string) []byte {
	data, err := fixtureFiles.ReadFile("fixtures/rest/" + name)
	if err != nil {
		panic(fmt.Sprintf("sftest: no fixture %q", name))
	}
	return data
}

func findFixture(name string) (Fixture, bool) {
	for _, f := range fixtureIndex() {
		if f.File == name {
			return f, true
		}
	}
	return Fixture{}, false
}

func hasFixture(name string) bool {
	_, ok := findFixture(name)
	return ok
}

func mustFixture(name string) Fixture {
	f, ok := findFixture(name)
	if !ok {
		panic(fmt.Sprintf("sftest: no fixture %q", name))
	}
	return f
}

func (f Fixture) header() http.Header {
	h := http.Header{}
	for k, v := range f.Headers {
		h.Set(k, v)
	}
	return h
}
