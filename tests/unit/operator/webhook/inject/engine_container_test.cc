// The choice of the engine's container, and launchers that keep Larder's additions.
#include <gtest/gtest.h>

#include "tests/unit/operator/api/yaml_object.h"
#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

std::string refused(const std::string& container) {
  return container_case(container).inject().refused;
}

// The names of the containers that get the flag.
std::string engines_of(const char* containers) {
  InjectionCase one = container_case("{}");
  one.pod["spec"]["containers"] = from_yaml(containers).front();
  const webhook::Injection injection = one.inject();
  if (!injection.refused.empty()) return injection.refused;
  std::string names;
  const Object after = patched(one.pod, injection.patch);
  for (const Object& container : after["spec"]["containers"])
    if (container.dump().find("LarderConnector") != std::string::npos)
      names += container["name"].get<std::string>() + " ";
  return names;
}

TEST(EngineContainer, OfArgsThatBeginWithAProgramIsNone) {
  for (const char* args :
       {"[sleep, infinity]", "[python3, -m, dynamo.vllm, --model, m]", "[python3, server.py]",
        "[bash, /start.sh]", "[/bin/x]", "[/usr/local/bin/serve-it, --port, '1']", "[ray, status]",
        "[tail, -f, /dev/null]", "[nginx, -g, 'daemon off;']", "[cat]", "[env, A=1, sleep, '1']",
        "[/start.sh]", "[vllm, bench, serve]", "[jupyter, lab]", "[something, else]",
        "[tini, --, x]"})
    EXPECT_NE(refused(std::string("{image: 'rocm/vllm-dev:1', args: ") + args + "}")
                  .find("args that begin with a program"),
              std::string::npos)
        << args << ": " << refused(std::string("{image: 'rocm/vllm-dev:1', args: ") + args + "}");
}

TEST(EngineContainer, OfArgsThatAreVllmsIsOne) {
  for (const char* args : {"[m]", "[org/model, --port, '1']", "[/mnt/models, --max-model-len, '1']",
                           "[--model, m]", "[serve, m]", "[--port, '1']", "[$(MODEL), --port, '1']",
                           "[vllm, serve, m]", "[m, -tp, '2']", "[ray-model/m, --seed, '1']"})
    EXPECT_EQ(refused(std::string(
                          "{image: 'vllm/vllm-openai:1', env: [{name: MODEL, value: m}], args: ") +
                      args + "}"),
              "")
        << args;
}

TEST(EngineContainer, OfSeveralByImageIsTheOneWithVllmsArgs) {
  EXPECT_EQ(engines_of("[{name: a, image: 'x/vllm-a:1', args: [--port, '1']}, {name: b, image: "
                       "'x/vllm-b:1', args: [m]}]"),
            "b ");
  EXPECT_EQ(engines_of("[{name: a, image: 'x/vllm-a:1', args: [--max-model-len, '1']}, {name: b, "
                       "image: 'x/vllm-b:1', args: "
                       "[--port, '1']}]"),
            "a ");
  EXPECT_EQ(
      engines_of(
          "[{name: a, image: 'x/vllm-a:1', args: [m]}, {name: b, image: 'x/vllm-b:1', args: [n]}]"),
      "a b ");
  EXPECT_EQ(engines_of("[{name: a, image: 'x/vllm-a:1', args: [sleep, '1']}, {name: b, image: "
                       "'x/vllm-b:1', args: [--port, '1']}]"),
            "b ");
  const std::string none = engines_of(
      "[{name: a, image: 'x/vllm-a:1', args: [--port, '1']}, {name: b, image: 'x/vllm-b:1', args: "
      "[--port, '2']}]");
  EXPECT_NE(none.find("several containers of the pod may be the engine (a, b)"), std::string::npos)
      << none;
}

TEST(EngineContainer, AmongInitContainersIsSaid) {
  InjectionCase one = container_case("{image: app, command: [app]}");
  one.pod["spec"]["initContainers"] =
      from_yaml("[{name: side, restartPolicy: Always, command: [vllm, serve, m]}]").front();
  EXPECT_NE(
      one.inject().refused.find(
          "engine side is an init container, and the injector does not change init containers; "),
      std::string::npos)
      << one.inject().refused;
}

// covers F-241
TEST(Environment, ThatIsTakenAwayIsSaid) {
  for (const char* command :
       {"[env, -i, vllm, serve, m]",
        "[env, '-', PATH=/bin, vllm, serve, m]",
        "[env, --ignore-environment, A=1, vllm, serve, m]",
        "[env, -u, PYTHONPATH, vllm, serve, m]",
        "[env, --unset=PYTHONPATH, vllm, serve, m]",
        "[env, -uLARDER_SOCKET, vllm, serve, m]",
        "[env, PYTHONPATH=/app, vllm, serve, m]",
        "[sudo, -E, vllm, serve, m]",
        "[gosu, user, vllm, serve, m]",
        "[su-exec, user, vllm, serve, m]",
        "[su, '-', user, -c, vllm serve m]",
        "[runuser, -u, user, --, vllm, serve, m]",
        "[setpriv, --reset-env, vllm, serve, m]",
        "[setpriv, --reuid, '1', --clear-groups, vllm, serve, m]",
        "[python3, -I, -m, vllm.entrypoints.openai.api_server]",
        "[python3, -uE, -m, vllm.entrypoints.openai.api_server]",
        "[python3, -S, /usr/bin/vllm, serve, m]",
        "[env, -i, bash, -c, vllm serve m]",
        "[nice, env, -i, vllm, serve, m]",
        "[sh, -c, 'env -i vllm serve m']",
        "[sh, -c, 'exec env -i PATH=\"$PATH\" vllm serve m']",
        "[bash, -c, 'exec -c vllm serve m']",
        "[bash, -c, 'exec -cl vllm serve m']",
        "[sh, -c, 'unset PYTHONPATH; vllm serve m']",
        "[sh, -c, 'unset A PYTHONPATH B; vllm serve m']",
        "[bash, -c, 'export -n PYTHONPATH; vllm serve m']",
        "[bash, -c, 'declare +x PYTHONPATH; vllm serve m']",
        "[sh, -c, 'PYTHONPATH= vllm serve m']",
        "[sh, -c, 'export PYTHONPATH=/a:$PYTHONPATH; PYTHONPATH=/b vllm serve m']",
        "[sh, -c, 'A=/app; export PYTHONPATH=$A; vllm serve m']",
        "[sh, -c, 'env PYTHONPATH=/x vllm serve m']",
        "[sh, -c, 'python3 -E -m vllm.entrypoints.openai.api_server']",
        "[bash, -c, 'env -i bash -c \"vllm serve m\"']",
        "[sh, -c, 'sudo -u user vllm serve m']",
        "[sh, -c, 'unset PYTHONPATH; exec \"$@\"', --, vllm, serve, m]"}) {
    const std::string why = refused(std::string("{command: ") + command + "}");
    EXPECT_NE(why.find("cannot be connected: "), std::string::npos) << command << ": " << why;
    EXPECT_NE(why.find("; "), std::string::npos) << why;
  }
}

TEST(Environment, ThatStaysIsServed) {
  for (const char* command :
       {"[env, -u, HTTP_PROXY, vllm, serve, m]", "[env, -C, /tmp, A=1, vllm, serve, m]",
        "[env, 'PYTHONPATH=/a:$(PYTHONPATH)', vllm, serve, m]",
        "[setpriv, --reuid, '1', vllm, serve, m]",
        "[python3, -u, -X, dev, -m, vllm.entrypoints.openai.api_server]",
        "[python3, -W, ignore::E, -m, vllm.entrypoints.openai.api_server]",
        "[bash, -c, 'exec -a engine vllm serve m']", "[/usr/bin/tini, -g, --, vllm, serve, m]",
        "[dumb-init, vllm, serve, m]", "[numactl, -m, '0', vllm, serve, m]",
        "[nsys, profile, -o, report, vllm, serve, m]",
        "[/opt/nvidia/nvidia_entrypoint.sh, vllm, serve, m]",
        "[sh, -c, 'export PYTHONPATH=/a:$PYTHONPATH; vllm serve m']",
        "[sh, -c, 'PYTHONPATH=\"${PYTHONPATH}:/a\" vllm serve m']",
        "[bash, -c, 'PYTHONPATH+=:/a; vllm serve m']",
        "[sh, -c, 'P=$PYTHONPATH; export PYTHONPATH=/a:$P; vllm serve m']"})
    EXPECT_EQ(refused(std::string("{command: ") + command + "}"), "") << command;
  EXPECT_EQ(refused("{image: 'nvcr.io/nvidia/vllm:1', args: [vllm, serve, m]}"), "")
      << "NVIDIA's entrypoint runs its args";
}

}  // namespace
}  // namespace larder::test
