package model

// ServiceSnapshot is a Service with its slices. It must not be changed.
type ServiceSnapshot struct {
	*Service
	Slices []EndpointSlice
}

// Snapshot lists all Services with their slices, unsorted. It is cheap because
// endpoints are not copied. Later events do not change it.
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
