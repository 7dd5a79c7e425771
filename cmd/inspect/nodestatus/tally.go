package nodestatus

import "time"

// TallySchema is the version of the form of a [Tally].
const TallySchema = 1

// Tally is what a program needs to add up the connections of many nodes: much less than a
// [Document]. Services without connections whose state is OK are only counted.
type Tally struct {
	Schema    int       `json:"schema"`
	Source    string    `json:"source"`
	Time      time.Time `json:"time"`
	Node      string    `json:"node,omitempty"`
	Version   string    `json:"version,omitempty"`
	Ready     bool      `json:"ready"`
	Counted   bool      `json:"counted"`
	CountedAt time.Time `json:"countedAt,omitzero"`
	Summary   Summary   `json:"summary"`
	// Services are sorted by namespace and name.
	Services []TallyLine `json:"services"`
	Problems []Problem   `json:"problems,omitempty"`
}

// TallyLine is a Service in a [Tally].
type TallyLine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state,omitempty"` // empty for OK
	// Severity is empty if it is the state's.
	Severity string `json:"severity,omitempty"`
	Problem  string `json:"problem,omitempty"`
	Traffic
}

// Tally returns the tally of a document.
func (d *Document) Tally() *Tally {
	out := &Tally{
		Schema: TallySchema, Source: d.Source, Time: d.Time, Node: d.Node, Version: d.Version, Ready: d.Ready,
		Counted: d.Counted, CountedAt: d.CountedAt, Summary: d.Summary(), Services: []TallyLine{}, Problems: d.Problems,
	}
	for i := range d.Services {
		s := &d.Services[i]
		line := TallyLine{Namespace: s.Namespace, Name: s.Name, Traffic: s.Traffic()}
		if state := s.State(); state != StateOK {
			line.State, line.Problem = state, s.FirstProblem()
			if severity := s.Severity(); severity != SeverityOf(state) {
				line.Severity = severity
			}
		}
		if line.State != "" || line.Connections > 0 || line.Active > 0 {
			out.Services = append(out.Services, line)
		}
	}
	return out
}
