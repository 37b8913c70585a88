package feed

import "time"

// PlanHead is what the plans of all sources begin with.
type PlanHead struct {
	Source string `json:"source"`
	Static bool   `json:"static"`
	Org    string `json:"org,omitempty"`
	OrgID  string `json:"org_id,omitempty"`
	Lane   string `json:"lane,omitempty"`
	Since  string `json:"since,omitempty"`
	Until  string `json:"until,omitempty"`
	MaxAge string `json:"max_age,omitempty"`
}

// NewPlanHead begins a static plan.
func NewPlanHead(source, orgID string, w Window) PlanHead {
	return PlanHead{Source: source, Static: true, OrgID: orgID, Since: rfc3339(w.Since), Until: rfc3339(w.Until)}
}

// Head gives the head itself, for who fills in the names of org and lane.
func (h *PlanHead) Head() *PlanHead { return h }

// rfc3339 is empty for no time.
func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
