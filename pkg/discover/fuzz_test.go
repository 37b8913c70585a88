package discover

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/errtest"
)

// Whatever an org answers is told, or refused in one line, for each kind.
func FuzzRun(f *testing.F) {
	seeds := [][]string{
		{`{"sobjects":[{"name":"Shipped__e"},{"name":"LoginEvent","queryable":true},{"name":"LoginEventStream"},{"name":"SetupAuditTrail","queryable":true},{"name":"Account__ChangeEvent"}]}`, `{"sobjects":[]}`, `{}`, `[]`, `{"sobjects":[{"name":7}]}`, `{"sobjects":[{"name":"X/../YEvent","queryable":true}]}`},
		{`{"name":"LoginEvent","queryable":true,"fields":[{"name":"EventDate","type":"datetime","filterable":true},{"name":"EventType","picklistValues":[{"value":"Login"}]},{"name":"A__c","type":"address"}]}`, `{"fields":[]}`, `{"queryable":false,"fields":[{"name":"Id"}]}`, `{"fields":7}`},
		{`{"EventType":"Login","n":3,"newest":"2026-07-01T10:00:00.000+0000"}`, `{"EventType":"","n":3}`, `{"EventType":"Login","n":"3"}`, `{"EventType":"Login","newest":"soon"}`},
		{`{"DeveloperName":"Orders","ChannelType":"event"}`, `{"DeveloperName":"Orders__chn","NamespacePrefix":"ns","ChannelType":"DATA"}`, `{"DeveloperName":"ChangeEvents","ChannelType":"data"}`, `{"DeveloperName":7}`, `{"DeveloperName":"a b","ChannelType":"x/y"}`},
	}
	for part := range seeds {
		for _, s := range append(seeds[part], strings.Repeat("7", 5000), `{"Name":`+strings.Repeat("7", 5000)+`,"EventType":`+strings.Repeat("7", 5000)+`,"DeveloperName":`+strings.Repeat("7", 5000)+`}`) {
			answers := []string{seeds[0][0], seeds[1][0], seeds[2][0], seeds[3][0]}
			answers[part] = s
			f.Add([]byte(answers[0]), []byte(answers[1]), []byte(answers[2]), []byte(answers[3]))
		}
	}
	f.Fuzz(func(t *testing.T, objects, description, row, channel []byte) {
		answers := anyOrg{org{files: []string{string(row)}, channels: []string{string(channel)}, "SELECT ": []string{}}, objects, description}
		for _, kind := range []string{Topic, EventType, Object} {
			err := Run(t.Context(), Config{API: answers, Kinds: []string{kind}, Lookback: time.Hour}, func(found *Thing) error {
				if _, err := json.Marshal(found); err != nil || found.Kind == Topic && !strings.HasPrefix(found.Name, "/") {
					t.Fatalf("%+v, %v", found, err)
				}
				if found.Error != "" {
					errtest.OneLine(t, errors.New(found.Error))
				}
				return nil
			})
			if err != nil {
				errtest.OneLine(t, err)
			}
		}
	})
}

// anyOrg answers with one description, whatever the object.
type anyOrg struct {
	org
	objects, description []byte
}

func (o anyOrg) Get(_ context.Context, path string) ([]byte, error) {
	if path == objectsPath {
		return o.objects, nil
	}
	return o.description, nil
}
