package model

// Snapshot is a Service with its slices, as a [ServiceMap] was told of them. Nothing
// of it must be changed.
type ServiceSnapshot struct {
	*Service
	Slices []EndpointSlice
}

// Snapshot lists all Services, in no order. Endpoints are not copied, so that it costs
// little; it stays as it is whatever the map is told later.
func (m *ServiceMap) Snapshot() []ServiceSnapshot {
	n := 0
	for _, e := range m.services {
		n += len(e.slices)
	}
	all, out := make([]EndpointSlice, 0, n), make([]ServiceSnapshot, 0, m.count)
	for _, e := range m.services {
		if e.service == nil {
			continue
		}
		from := len(all)
		all = append(all, e.slices...)
		out = append(out, ServiceSnapshot{e.service, all[from:len(all):len(all)]})
	}
	return out
}

// Conflicts lists the conflicts there are, as of the last Changes, in no order.
func (m *ServiceMap) Conflicts() []Conflict { return m.claims.conflicts() }
