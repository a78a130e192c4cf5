// An RDMA device without hardware, for InfiniStore's server alone: the server registers its memory
// with a device before the server takes TCP connections. The test compiles this file to
// libibverbs.so.1. Only the functions that the start calls do anything.
#include <stdlib.h>
#include <string.h>

static char device[4096];
static void* devices[2] = {device, NULL};

// Larger than each struct of the library; zero bytes mean the oldest interface.
static void* object(void) {
  return calloc(1, 4096);
}

void** ibv_get_device_list(int* count) {
  *count = 1;
  return devices;
}
void ibv_free_device_list(void** list) {
  (void)list;
}
const char* ibv_get_device_name(void* of) {
  (void)of;
  return "fake0";
}
void* ibv_open_device(void* of) {
  (void)of;
  return object();
}
// struct ibv_port_attr: active_mtu is at byte 8, link_layer at byte 46.
int ibv_query_port(void* context, unsigned char port, void* attributes) {
  (void)context, (void)port;
  memset(attributes, 0, 47);
  ((int*)attributes)[2] = 3;             // 1,024 bytes
  ((unsigned char*)attributes)[46] = 1;  // InfiniBand
  return 0;
}
void* ibv_alloc_pd(void* context) {
  (void)context;
  return object();
}
void* ibv_reg_mr(void* domain, void* address, size_t bytes, int access) {
  (void)domain, (void)address, (void)bytes, (void)access;
  return object();
}

#define UNUSED(name) \
  void* name(void) { \
    return NULL;     \
  }
UNUSED(ibv_ack_cq_events)
UNUSED(ibv_close_device)
UNUSED(ibv_create_comp_channel)
UNUSED(ibv_create_cq)
UNUSED(ibv_create_qp)
UNUSED(ibv_dealloc_pd)
UNUSED(ibv_dereg_mr)
UNUSED(ibv_destroy_comp_channel)
UNUSED(ibv_destroy_cq)
UNUSED(ibv_destroy_qp)
UNUSED(ibv_get_cq_event)
UNUSED(ibv_modify_qp)
UNUSED(ibv_query_gid)
UNUSED(ibv_wc_status_str)
