/** A page whose code is fetched when it is first looked at. */
import { useEffect, useState } from "preact/hooks";

type View = () => preact.ComponentChild;

export function lazy(load: () => Promise<{ default: View }>): View {
  let loaded: View | null = null;
  return function Lazy() {
    const [, setIsThere] = useState(loaded !== null);
    useEffect(() => {
      if (!loaded)
        void load().then((module) => {
          loaded = module.default;
          setIsThere(true);
        });
    }, []);
    return loaded ? <LoadedView view={loaded} /> : null;
  };
}

function LoadedView({ view: View }: { view: View }) {
  return <View />;
}
