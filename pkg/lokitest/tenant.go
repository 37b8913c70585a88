package lokitest

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/time/rate"
)

// tenant is what the server holds of one tenant.
type tenant struct {
	name    string
	limits  Limits
	streams map[string]*stream
	rate    *rate.Limiter
	shards  map[string]*shardState // by unsharded stream
}

// tenant returns the tenant of that name; s.mu is held.
func (s *Server) tenant(name string) *tenant {
	t := s.tenants[name]
	if t == nil {
		t = &tenant{name: name, limits: DefaultLimits(), streams: map[string]*stream{}, shards: map[string]*shardState{}}
		if s.config.Limits != nil {
			s.config.Limits(name, &t.limits)
		}
		s.tenants[name] = t
	}
	return t
}

// allow takes n bytes off the tenant's rate.
func (t *tenant) allow(s *Server, n int) bool {
	if t.limits.IngestionRate == 0 {
		return true
	}
	if t.rate == nil || t.rate.Limit() != rate.Limit(t.limits.IngestionRate) || t.rate.Burst() != t.limits.IngestionBurst {
		t.rate = rate.NewLimiter(rate.Limit(t.limits.IngestionRate), t.limits.IngestionBurst)
	}
	return t.rate.AllowN(s.config.Now(), n)
}

// refusal is an answer other than 204.
type refusal struct {
	status int
	text   string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// tenantOf reads the tenant's name from the request.
func (s *Server) tenantOf(r *http.Request) (string, *refusal) {
	if !s.config.MultiTenant {
		return "fake", nil
	}
	id := r.Header.Get("X-Scope-OrgID")
	switch {
	case id == "":
		return "", refuse(http.StatusUnauthorized, "no org id")
	case strings.Contains(id, "|"):
		return "", refuse(http.StatusBadRequest, "multiple org IDs present")
	case id == "." || id == "..":
		return "", refuse(http.StatusBadRequest, "tenant ID is '.' or '..'")
	case len(id) > 150:
		return "", refuse(http.StatusBadRequest, "tenant ID is too long: max 150 characters")
	}
	for _, c := range id {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!-_.*'()", c) {
			return "", refuse(http.StatusBadRequest, "tenant ID '%s' contains unsupported character '%c'", id, c)
		}
	}
	return id, nil
}

// admitted is the gateway in front: it knows users and tokens.
func (s *Server) admitted(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.config.Users) == 0 && len(s.config.Tokens) == 0 {
		return true
	}
	if user, password, ok := r.BasicAuth(); ok {
		want, known := s.config.Users[user]
		return known && password == want
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return false
	}
	for _, known := range s.config.Tokens {
		if token == known {
			return true
		}
	}
	return false
}
