package model

// Known is a Service with its slices, as a [ServiceMap] was told of them. Nothing
// of it must be changed.
type Known struct {
	*Service
	Slices []Slice
}

// Known lists all Services, in no order. Endpoints are not copied, so that it costs
// little; it stays as it is whatever the map is told later.
func (m *ServiceMap) Known() []Known {
	n := 0
	for _, e := range m.services {
		n += len(e.slices)
	}
	all, out := make([]Slice, 0, n), make([]Known, 0, m.known)
	for _, e := range m.services {
		if e.service == nil {
			continue
		}
		from := len(all)
		all = append(all, e.slices...)
		out = append(out, Known{e.service, all[from:len(all):len(all)]})
	}
	return out
}

// Lost lists the conflicts there are, as of the last Changes, in no order.
func (m *ServiceMap) Lost() []Conflict { return m.claims.conflicts() }
