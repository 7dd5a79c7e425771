package model

import (
	"testing"
)

func TestSnapshotDoesNotChange(t *testing.T) {
	m := NewServiceMap(Options{}, thisNode)
	slice := webSlice(IPv4, TCP, ready(1))
	slice.Name, slice.Service = EndpointSliceName{"shop", "web-1"}, web
	m.SetSlice(slice)
	if known := m.Snapshot(); len(known) != 0 {
		t.Errorf("slices without a Service are listed: %v", known)
	}
	m.SetService(Service{Name: web, UID: "1"})
	before := m.Snapshot()
	other := slice
	other.Endpoints = nil
	m.SetSlice(other)
	m.SetService(Service{Name: web, UID: "2"})
	if len(before) != 1 || before[0].UID != "1" || len(before[0].Slices) != 1 || len(before[0].Slices[0].Endpoints) != 1 {
		t.Errorf("an earlier snapshot changed to %+v", before)
	}
	after := m.Snapshot()
	if len(after) != 1 || after[0].UID != "2" || len(after[0].Slices[0].Endpoints) != 0 {
		t.Errorf("got %+v", after)
	}
	m.DeleteService(web)
	if known := m.Snapshot(); len(known) != 0 {
		t.Errorf("a deleted Service is listed: %v", known)
	}
}
