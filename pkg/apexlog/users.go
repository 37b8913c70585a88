package apexlog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// Conditions of a query have at most 4,000 characters.
const (
	maxUsers  = 150
	namesEach = 40
)

// CheckUsers refuses what can be neither a user's id nor a username, before
// anything is asked.
func CheckUsers(users []string) error {
	if len(users) > maxUsers {
		return sysexits.Errorf(sysexits.Usage, "%d users: at most %d fit into one query; several lanes may have some each", len(users), maxUsers)
	}
	for _, u := range users {
		if strings.Contains(u, "@") && len(u) <= 80 && !strings.ContainsAny(u, " \t\r\n") {
			continue
		}
		if id, err := salesforce.ID18(u); err != nil || !strings.HasPrefix(id, "005") {
			return sysexits.Errorf(sysexits.Usage, "user %q: want an id that begins with 005, or a username, which has an @", u)
		}
	}
	return nil
}

// findUsers gives the ids of users.
func findUsers(ctx context.Context, api API, users []string) ([]string, error) {
	var ids, names []string
	for _, u := range users {
		if strings.Contains(u, "@") {
			names = append(names, u)
		} else if id, err := salesforce.ID18(u); err == nil {
			ids = append(ids, id)
		}
	}
	found := map[string]bool{}
	for some := range slices.Chunk(names, namesEach) {
		more, err := lookUp(ctx, api, some, found)
		if err != nil {
			return nil, err
		}
		ids = append(ids, more...)
	}
	for _, name := range names {
		if !found[strings.ToLower(name)] {
			return nil, sysexits.Errorf(sysexits.Config, "this org has no user %q, or does not show it to this one", name)
		}
	}
	return ids, nil
}

// lookUp asks for the ids of usernames, and notes which there are.
func lookUp(ctx context.Context, api API, names []string, found map[string]bool) ([]string, error) {
	var ids []string
	for raw, err := range api.Query(ctx, "SELECT Id, Username FROM User WHERE Username IN "+salesforce.QuoteList(names)) {
		if err != nil {
			return nil, fmt.Errorf("find the users: %w", err)
		}
		var u struct{ ID, Username string }
		if err := json.Unmarshal(raw, &u); err != nil || u.ID == "" {
			return nil, &feed.OddAnswer{Text: "find the users: the answer has a record without an Id"}
		}
		ids = append(ids, u.ID)
		found[strings.ToLower(u.Username)] = true
	}
	return ids, nil
}
